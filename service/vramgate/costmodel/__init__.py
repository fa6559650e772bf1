"""Peak GPU memory of a training job, from first principles."""
