SELECT term(count(*)), term(coalesce(sum(n), 0)) FROM {weight}
