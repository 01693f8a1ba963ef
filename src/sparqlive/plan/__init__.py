"""From algebra to plan: operators, rewrites, delta rules, costs, explanations."""
