SELECT o, term(count(*)) FROM {colour} GROUP BY o
