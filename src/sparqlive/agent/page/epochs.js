export function showEpochs(main) { return () => {}; }
