// A small shop to try things with: products with prices, stock and makers, and views of them.

const SHOP = "http://example.org/shop/";
const PREFIX = `PREFIX : <${SHOP}>\n`;
const KINDS = ["Walnut desk", "Reading lamp", "Oak shelf", "Wool rug", "Cork board", "Glass carafe", "Copper pan"];
const COLOURS = ["black", "white", "red", "green", "blue", "natural"];
const COUNTRIES = ["Netherlands", "Belgium", "Germany", "France", "Italy"];
const PRODUCTS = KINDS.length * COLOURS.length;

// The data, in Turtle. Prices follow from the number of a product, so that every store gets the same shop.
export function sampleData() {
  const makers = COUNTRIES.map((country, number) => `:maker${number} a :Maker ; :country "${country}" .`);
  const products = KINDS.flatMap((kind, place) => COLOURS.map((colour, number) => {
    const id = place * COLOURS.length + number;
    return `:product${id} a :Product ; :label "${kind}, ${colour}" ; :price ${5 + ((id * 37) % 90)} ; :stock ${(id * 7) % 13} ; :maker :maker${id % COUNTRIES.length} .`;
  }));
  return [`@prefix : <${SHOP}> .`, ...makers, ...products].join("\n");
}

export const SAMPLES = [
  {
    name: "stock-by-country", chart: "bar", words: "Stock per country, as bars that move",
    query: `${PREFIX}SELECT ?country (SUM(?stock) AS ?pieces) WHERE {\n  ?product :stock ?stock ; :maker/:country ?country\n}\nGROUP BY ?country`,
  },
  {
    name: "bargains", chart: null, words: "Products below 30, with rows that enter and leave",
    query: `${PREFIX}SELECT ?product ?label ?price WHERE {\n  ?product :label ?label ; :price ?price\n  FILTER (?price < 30)\n}`,
  },
  {
    name: "value-of-stock", chart: "number", words: "The value of all stock, as one number",
    query: `${PREFIX}SELECT (SUM(?price * ?stock) AS ?value) WHERE {\n  ?product :price ?price ; :stock ?stock\n}`,
  },
];

export const isSample = (view) => SAMPLES.some(({ name, query }) => name === view.name && query === view.query);

// An update that gives some products other prices and another stock, as a day in a shop does.
export function sampleChange(random = Math.random) {
  const chosen = Array.from({ length: 4 }, () => Math.floor(random() * PRODUCTS));
  const parts = [...new Set(chosen)].map((id) => {
    const product = `:product${id}`;
    const [price, stock] = [5 + Math.floor(random() * 90), Math.floor(random() * 13)];
    return `DELETE { ${product} :price ?price ; :stock ?stock } INSERT { ${product} :price ${price} ; :stock ${stock} }\n`
      + `WHERE { ${product} :price ?price ; :stock ?stock }`;
  });
  return PREFIX + parts.join(" ;\n");
}
