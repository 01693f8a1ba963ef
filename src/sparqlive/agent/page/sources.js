export function showSources(main) { return () => {}; }
