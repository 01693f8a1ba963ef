export function showPlan(main) { return () => {}; }
