// SPDX-License-Identifier: GPL-2.0-only
// Run in a report's page: what is wrong with it, as a list of sentences.
(() => {
  const wrong = [];
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const shown = element => element.getClientRects().length > 0;
  const start = element => element.textContent.trim().slice(0, 40);
  const name = element => `<${element.tagName.toLowerCase()}> "${start(element)}"`;

  // Nothing wider than the page, with every table opened.
  all('details').forEach(details => { details.open = true; });
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) {
    wrong.push(`the page scrolls sideways: ${document.documentElement.scrollWidth} > ${width}`);
  }
  for (const element of all('body *')) {
    if (!shown(element) || element.closest('.scroll, pre, .skip, svg')) continue;
    const box = element.getBoundingClientRect();
    if (box.right > width + 1 || box.left < -1) {
      wrong.push(`${name(element)} leaves the page: ${box.left} to ${box.right}`);
    }
  }

  // Texts of a drawing: inside it, large enough, none over another.
  for (const svg of all('svg').filter(shown)) {
    const frame = svg.getBoundingClientRect();
    const texts = all('text', svg).map(text => ({ text, box: text.getBoundingClientRect() }));
    for (const { text, box } of texts) {
      const size = parseFloat(getComputedStyle(text).fontSize) * svg.getScreenCTM().a;
      const label = svg.getAttribute('aria-labelledby');
      if (size < 11) wrong.push(`${name(text)} in ${label} is ${size.toFixed(1)} px high`);
      if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
          box.top < frame.top - 1 || box.bottom > frame.bottom + 1) {
        wrong.push(`${name(text)} leaves its drawing ${svg.getAttribute('aria-labelledby')}`);
      }
    }
    texts.forEach((one, nth) => {
      for (const other of texts.slice(nth + 1)) {
        const [a, b] = [one.box, other.box];
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        // Boxes are as high as the font's tallest letters: lines may touch.
        if (across > 0.5 && down > 3) {
          const label = svg.getAttribute('aria-labelledby');
          wrong.push(`${name(one.text)} and ${name(other.text)} overlap in ${label}`);
        }
      }
    });
  }

  // For who does not see the drawings.
  for (const svg of all('svg')) {
    const named = (svg.getAttribute('aria-labelledby') || '').split(' ');
    const texts = named.map(id => document.getElementById(id)?.textContent.trim());
    if (svg.getAttribute('role') !== 'img' || texts.length !== 2 || texts.some(text => !text)) {
      wrong.push(`${svg.id || name(svg)} has no title and description`);
    }
    const table = svg.closest('figure')?.querySelector('details table');
    if (!table || !(svg.compareDocumentPosition(table) & Node.DOCUMENT_POSITION_FOLLOWING)) {
      wrong.push(`${named[0]} has no table after it`);
    }
  }
  for (const table of all('table')) {
    if (!table.caption?.textContent.trim()) wrong.push(`${name(table)} has no caption`);
    if (all('th:not([scope])', table).length) wrong.push(`${name(table)} has a head without scope`);
    if (table.closest('.scroll')?.tabIndex !== 0) {
      wrong.push(`${name(table)} cannot be scrolled by keyboard`);
    }
    const columns = table.tHead.rows[0].cells.length;
    for (const row of all('tbody tr', table)) {
      const cells = [...row.cells].reduce((sum, cell) => sum + cell.colSpan, 0);
      if (cells !== columns) wrong.push(`a row of ${name(table)} has ${cells} of ${columns} cells`);
    }
  }
  let level = 0;
  for (const heading of all('h1, h2, h3, h4')) {
    const next = Number(heading.tagName[1]);
    if (next > level + 1) wrong.push(`${name(heading)} skips a level`);
    level = next;
  }
  const ids = all('[id]').map(element => element.id);
  const twice = new Set(ids.filter((id, nth) => ids.indexOf(id) !== nth));
  twice.forEach(id => wrong.push(`id ${id} is there twice`));
  all('a[href^="#"]').forEach(link => {
    if (!document.getElementById(link.hash.slice(1))) wrong.push(`${name(link)} leads nowhere`);
  });
  if (document.querySelector('a, button, summary, [tabindex="0"]')?.className !== 'skip') {
    wrong.push('the first link does not skip to the content');
  }

  // Contrast of all texts, WCAG 2 level AA.
  const linear = value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const channel = value => linear(value / 255);
  const luminance = color => {
    const [r, g, b] = color.match(/[\d.]+/g).map(Number).map(channel);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  const background = element => {
    for (; element; element = element.parentElement) {
      const color = getComputedStyle(element).backgroundColor;
      if (!/, 0\)$|transparent/.test(color)) return color;
    }
    return 'rgb(255, 255, 255)';
  };
  const seen = new Set();
  const demand = (least, color, behind, what) => {
    const key = `${color} on ${behind}`;
    const ratio = contrast(color, behind);
    if (ratio < least && !seen.has(key)) {
      seen.add(key);
      wrong.push(`${what}: contrast ${ratio.toFixed(2)} (${key})`);
    }
  };
  for (const element of all('body *').filter(shown)) {
    if (![...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
    const style = getComputedStyle(element);
    const svg = element.closest('svg');
    demand(4.5, svg ? style.fill : style.color, background(svg || element), name(element));
  }
  // Parts of drawings that carry meaning: 3 to 1.
  for (const shape of all('svg rect, svg circle').filter(shown)) {
    const { fill, stroke } = getComputedStyle(shape);
    if (fill.startsWith('url') || shape.classList.contains('asleep')) continue;
    const color = shape.classList.contains('not-shown') ? stroke : fill;
    demand(3, color, background(shape.closest('svg')), `.${shape.getAttribute('class')}`);
  }

  const loaded = performance.getEntriesByType('resource').map(entry => entry.name);
  if (loaded.length) wrong.push(`the page loads ${loaded}`);
  return wrong;
})()
