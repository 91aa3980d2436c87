"""What each writer's messages mean: tables of their fixed words."""
