"""The reporter inside the trainers of other libraries; each is imported when it is used."""
