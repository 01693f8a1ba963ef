export function showQuery(main) { return () => {}; }
