"""What each section of the page shows, computed: one module per section that needs more than the
record itself."""
