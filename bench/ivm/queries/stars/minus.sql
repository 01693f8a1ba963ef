SELECT s, o FROM {colour} c WHERE NOT EXISTS (FROM {flag} f WHERE f.s = c.s)
