// Goes the main way through the page in Firefox (WebDriver BiDi) and prints what it saw.

import { createRequire } from "node:module";

const [command, packages, address] = process.argv.slice(2);
const puppeteer = createRequire(`${packages}/`)("puppeteer-core");
const browser = await puppeteer.launch({ browser: "firefox", executablePath: command, headless: true, timeout: 120_000 });
const seen = { wrong: [] };
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(120_000);
  page.on("pageerror", (error) => seen.wrong.push(error.message));
  const click = (name) => page.locator(`::-p-aria(${name})`).click();
  // Waits until there are so many of them.
  const count = async (selector, number) => {
    await page.waitForFunction((one, all) => document.querySelectorAll(one).length === all, {}, selector, number);
    return number;
  };
  const together = async (...keys) => {
    for (const key of keys) await page.keyboard.down(key);
    for (const key of keys.toReversed()) await page.keyboard.up(key);
  };

  await page.goto(address);
  await click("Load the sample shop");
  await click("Create the view stock-by-country");
  seen.bars = await count(".bars tr", 5);
  await click("Change some prices and stock");
  await page.waitForFunction(() => document.querySelector("#now").textContent === "epoch 2");

  await page.goto(`${address}/#/query`);
  await page.locator("#query-text").click();
  await together("Control", "a");
  await page.keyboard.type("PREFIX : <http://example.org/shop/>\nSELECT ?label { ?product :lab");
  await page.waitForSelector(".suggestions li");
  await page.keyboard.press("Tab");
  await page.keyboard.type(" ?label }");
  await together("Control", "Enter");
  seen.rows = await count("table.rows tbody tr", 42);
  await page.locator("th .sort").click();
  await page.waitForSelector("th[aria-sort]");
  seen.sorted = await page.$eval("table.rows tbody td", (cell) => cell.textContent);

  await page.goto(`${address}/#/sources`);
  await page.waitForSelector("#load-files");
  await page.evaluate(() => {
    const data = new DataTransfer();
    data.items.add(new File(["<http://x/a> <http://x/p> 1 ."], "a.ttl"));
    document.querySelector(".drop").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true }));
  });
  seen.files = await count(".loaded .good", 1);

  await page.goto(`${address}/chart#view=stock-by-country`);
  seen.embedded = await count(".bars tr", 5);
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));
