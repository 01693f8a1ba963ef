"""The agent: a session behind HTTP. SPARQL protocol, views, subscriptions, sources, access, and a page.

Owns the HTTP interface; makes no decision about data. There is one file per topic, each with its table of
`OPERATIONS`. `app.py` builds the application and the description at /openapi.json from these tables.
Invariant: a rejected request has changed nothing, and its answer says why.
"""
