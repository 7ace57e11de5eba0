"""Types that pass between rooms, and replay."""
