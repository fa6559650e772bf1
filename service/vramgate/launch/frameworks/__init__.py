"""One reader per framework: its options to fields of the job."""
