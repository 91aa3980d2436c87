"""Pictures as text: inline SVG and PNG, drawn by pure functions from records of points."""
