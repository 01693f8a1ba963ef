"""Plans and delta rules evaluated in process: generated Python over indexes."""
