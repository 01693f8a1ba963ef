SELECT s, o FROM {note} UNION ALL SELECT s, o FROM {flag}
