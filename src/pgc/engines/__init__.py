"""Who drives the loop: the simple exact one, and the compiled one."""
