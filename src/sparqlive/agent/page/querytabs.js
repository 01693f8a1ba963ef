// The tabs of the query editor: { id, name, text }, stored in this browser until they are closed.
// Other windows have the same tabs: each change is made to what is stored at that moment.

const KEY = "sparqlive-tabs";
const CHOSEN = "sparqlive-tab"; // of this window
export const FIRST = "SELECT ?subject ?predicate ?object WHERE {\n  ?subject ?predicate ?object\n}\nLIMIT 100\n";

// A browser may deny storage, or have no room: the tabs then last as long as the page.
let memory = [];
let memoryChosen = null;

const newId = () => Date.now().toString(36) + Math.random().toString(36).slice(2, 8);

function stored() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY));
    if (Array.isArray(found)) return found.filter((tab) => typeof tab?.text === "string" && typeof tab?.id === "string");
  } catch {
    // Nothing that can be read is stored.
  }
  return memory;
}

function store(tabs) {
  memory = tabs;
  try {
    localStorage.setItem(KEY, JSON.stringify(tabs));
  } catch {
    // They are in memory.
  }
}

export function allTabs() {
  const tabs = stored();
  if (tabs.length) return tabs;
  const first = [{ id: newId(), name: "Query 1", text: FIRST }];
  store(first);
  return first;
}

export function chosenTab() {
  const tabs = allTabs();
  return tabs.find((tab) => tab.id === chosenId()) ?? tabs[0];
}

function chosenId() {
  try {
    return sessionStorage.getItem(CHOSEN) ?? memoryChosen;
  } catch {
    return memoryChosen;
  }
}

export function chooseTab(id) {
  memoryChosen = id;
  try {
    sessionStorage.setItem(CHOSEN, id);
  } catch {
    // It is in memory.
  }
}

// Opens a tab with a text, or the one that has this text already.
export function openTab(text, name) {
  const tabs = allTabs();
  let tab = tabs.find((one) => one.text === text && (!name || one.name === name));
  if (!tab) {
    const numbers = tabs.map((one) => Number(/^Query (\d+)$/.exec(one.name)?.[1] ?? 0));
    tab = { id: newId(), name: name ?? `Query ${Math.max(0, ...numbers) + 1}`, text };
    store([...tabs, tab]);
  }
  chooseTab(tab.id);
  return tab;
}

export function changeTab(id, change) {
  store(allTabs().map((tab) => (tab.id === id ? { ...tab, ...change } : tab)));
}

export function closeTab(id) {
  const tabs = allTabs();
  const place = tabs.findIndex((tab) => tab.id === id);
  const left = tabs.filter((tab) => tab.id !== id);
  store(left);
  if (left.length) chooseTab(left[Math.min(place, left.length - 1)].id);
}
