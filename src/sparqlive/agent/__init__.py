"""The agent: a session behind HTTP. SPARQL protocol, views, subscriptions, sources, access, and a page.

Owns the words of HTTP; decides nothing about data. One file a topic, each with its table of `OPERATIONS`:
`app.py` makes the application of all of them, and the description at /openapi.json.
Invariant: whatever is refused has changed nothing, and says why in a sentence.
"""
