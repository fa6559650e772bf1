"""What each training framework does by default, one function per framework, each with its source."""
