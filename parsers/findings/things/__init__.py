"""Things of the field, what is wrong with them, and what that usually comes from."""
