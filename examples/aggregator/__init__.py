"""Three pods with a web agent each, and one aggregator over them: Figure 1 of the Solid paper."""
