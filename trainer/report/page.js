// Without this script the page is whole; with it charts tell values under the pointer or at the arrow keys, zoom into a range that
// is dragged (two clicks, or Escape, show all again), and give what they show as CSV. By the measures of chart.cpp.
'use strict';
(() => {
  const H = 274, L = 64, R = 24, T = 10, B = 48, DRAWN = 720, NS = 'http://www.w3.org/2000/svg';
  const told = document.getElementById('told');
  const short = v => v === null || !isFinite(v) ? '-' : Math.abs(v) >= 1e5 || (v !== 0 && Math.abs(v) < 1e-3)
    ? v.toExponential(2) : String(+v.toPrecision(Math.abs(v) >= 1000 ? 6 : 4));
  const element = (name, attributes, parent) => {
    const made = document.createElementNS(NS, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    parent.appendChild(made);
    return made;
  };
  const button = (parent, text, label, action) => {
    const made = document.createElement('button');
    made.type = 'button'; made.textContent = text; made.setAttribute('aria-label', label);
    made.addEventListener('click', action); parent.appendChild(made);
    return made;
  };
  // A unit of a drawing is a pixel from here on, so that texts have the size of other texts whatever the width.
  const fit = (figure, svg, height, draw) => {
    const width = () => Math.max(240, Math.round(svg.getBoundingClientRect().width) || DRAWN);
    let last = 0;
    figure.classList.add('drawn');
    const again = () => {
      if (width() === last) return;
      last = width(); svg.setAttribute('viewBox', `0 0 ${last} ${height}`); draw(last);
    };
    new ResizeObserver(() => requestAnimationFrame(again)).observe(figure);
    again();
  };
  const duration = s => { const m = Math.round(s / 60), h = Math.round(s / 3600), two = n => String(n).padStart(2, '0');
    return s < 59.5 ? Math.round(s) + ' s' : s < 3599.5 ? `${Math.floor(Math.round(s) / 60)} min ${two(Math.round(s) % 60)} s`
      : m < 1440 ? `${Math.floor(m / 60)} h ${two(m % 60)} min` : `${Math.floor(h / 24)} d ${two(h % 24)} h`; };
  const scale = JSON.parse((document.getElementById('scale') || {textContent: '{"e":0,"x":[],"s":[]}'}).textContent);
  const scaled = step => {
    const i = scale.x.findIndex(x => x >= step), texts = scale.e > 0 ? ['epoch ' + +(step / scale.e).toPrecision(3)] : [];
    if (i >= 0) {
      const from = i ? scale.x[i - 1] : 0, before = i ? scale.s[i - 1] : 0;
      texts.push(duration(before + (scale.x[i] > from ? (step - from) / (scale.x[i] - from) : 1) * (scale.s[i] - before)));
    }
    return texts.join(', ');
  };
  const powers = (from, to) => {
    const found = [], decades = Math.log10(to / from), apart = Math.max(1, Math.ceil(decades / 8));
    for (let p = Math.floor(Math.log10(from)); 10 ** p <= to; ++p) for (const f of [1, 2, 5])
      if ((f === 1 || decades < 4) && p % apart === 0 && f * 10 ** p >= from && f * 10 ** p <= to) found.push(f * 10 ** p);
    return found;
  };
  const ticks = (from, to, wanted) => {
    const rough = (to - from) / wanted, power = 10 ** Math.floor(Math.log10(rough)), factor = rough / power;
    const apart = power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10), found = [];
    for (let i = Math.ceil(from / apart); i * apart <= to && found.length <= 2 * wanted; ++i) found.push(i * apart);
    return found;
  };
  const download = (name, rows) => {
    const quoted = cell => /[",\n]/.test(cell) ? '"' + String(cell).replaceAll('"', '""') + '"' : cell;
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([rows.map(row => row.map(quoted).join(',')).join('\n') + '\n'], {type: 'text/csv'}));
    link.download = name + '.csv'; link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  // What charts and the map of ranks have in common: pointer, keys and the text beside them.
  const cursorOf = (figure, svg, at, move) => {
    const tip = document.createElement('div');
    tip.className = 'tip'; tip.hidden = true; figure.appendChild(tip);
    const place = event => {
      const box = svg.getBoundingClientRect();
      const view = svg.viewBox.baseVal;
      return [(event.clientX - box.left) * view.width / box.width, (event.clientY - box.top) * view.height / box.height];
    };
    const show = (text, x) => {
      tip.hidden = !text; tip.textContent = text || '';
      const box = svg.getBoundingClientRect(), outer = figure.getBoundingClientRect();
      const left = box.left - outer.left + x * box.width / svg.viewBox.baseVal.width;
      tip.style.top = (box.top - outer.top + 8) + 'px';
      tip.style.left = Math.max(4, left > outer.width / 2 ? left - tip.offsetWidth - 12 : left + 12) + 'px';
    };
    svg.addEventListener('pointermove', event => show(...at(...place(event))));
    svg.addEventListener('pointerleave', () => show(...at(null)));
    svg.addEventListener('blur', () => show(...at(null)));
    svg.addEventListener('keydown', event => {
      const by = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], PageUp: [-20, 0], PageDown: [20, 0]}[event.key];
      if (!by) return;
      const found = move(...by);
      if (!found) return;
      event.preventDefault();
      show(...found); told.textContent = found[0].replaceAll('\n', '. ');
    });
    return place;
  };
  const chart = (figure, svg, data, tools) => {
    const all = data.lines.flatMap(line => [(line.f || line.x)[0], line.x[line.x.length - 1]]);
    const whole = [Math.min(...all), Math.max(Math.max(...all), Math.min(...all) + 1)];
    const drawing = svg.querySelector('.drawing'), grid = svg.querySelector('.grid'), clip = svg.querySelector('clipPath path');
    let [from, to] = whole, least, most, chosen = null, begun = null, W = DRAWN;
    const x = step => L + (step - from) / (to - from) * (W - L - R);
    const share = value => data.log ? Math.log(Math.max(value, least) / least) / Math.log(most / least) : (value - least) / (most - least);
    const y = value => H - B - share(value) * (H - T - B);
    const cursor = element('path', {class: 'cursor', d: ''}, svg), range = element('path', {class: 'chosen', d: ''}, svg);
    const inside = line => line.x.map((step, i) => i).filter(i => line.x[i] >= from && (line.f || line.x)[i] <= to);
    const path = (line, at, values) => at.map((i, k) => (k ? 'L' : 'M') + x(line.x[i]).toFixed(1) + ' ' + y(values(i)).toFixed(1)).join('');
    const draw = () => {
      reset.hidden = from === whole[0] && to === whole[1];
      const at = data.lines.map(inside), sums = data.lines[0].x.map(() => 0);
      least = data.stacked || data.dots ? 0 : Infinity; most = -Infinity;
      data.lines.forEach((line, n) => at[n].forEach(i => {
        sums[i] += line.m[i];
        least = Math.min(least, line.m[i]); most = Math.max(most, data.stacked ? sums[i] : line.m[i]);
      }));
      if (!(most > -Infinity)) return;
      const positive = least >= 0, margin = data.log ? 0 : .06 * (most - least) || Math.abs(most) * .1 || 1;
      most = data.log ? most * 1.1 : most + margin;
      if (data.log) least /= 1.1; else if (!data.stacked && !data.dots) least = positive ? Math.max(0, least - margin) : least - margin;
      clip.setAttribute('d', `M${L} ${T}H${W - R}V${H - B}H${L}Z`);
      svg.querySelector('.axis').setAttribute('x', W - R);
      drawing.replaceChildren(); grid.replaceChildren();
      for (const value of data.log ? powers(least, most) : ticks(least, most, 5)) {
        element('path', {d: `M${L} ${y(value).toFixed(1)}H${W - R}`}, grid);
        element('text', {x: L - 6, y: y(value) + 4, 'text-anchor': 'end'}, grid).textContent = short(value);
      }
      for (const step of ticks(from, to, Math.max(2, Math.round(W / 100))))
        element('text', {x: x(step), y: H - B + 16, 'text-anchor': 'middle'}, grid).textContent = short(step);
      for (const step of ticks(from, to, Math.max(1, Math.round(W / 150))))
        if (scaled(step)) element('text', {x: x(step), y: H - B + 31, 'text-anchor': 'middle'}, grid).textContent = scaled(step);
      let below = sums.map(() => 0);
      data.lines.forEach((line, n) => {
        const back = [...at[n]].reverse();
        if (data.stacked && at[n].length === 1) {  // the whole width
          const [i] = at[n], low = y(below[i]).toFixed(1), high = y(below[i] + line.m[i]).toFixed(1);
          element('path', {class: 'area c' + n % 8, d: `M${L} ${high}H${W - R}V${low}H${L}Z`}, drawing);
          below = below.map((value, k) => value + (k === i ? line.m[i] : 0));
        } else if (data.stacked) {
          const above = below.map((value, i) => value + (line.m[i] || 0)), under = below;
          element('path', {class: 'area c' + n % 8, d: path(line, at[n], i => above[i]) + path(line, back, i => under[i]).replace('M', 'L') + 'Z'}, drawing);
          below = above;
        } else if (data.dots || at[n].length === 1) {
          element('path', {class: 'dots c' + n % 8, d: at[n].map(i => `M${x(line.x[i]).toFixed(1)} ${y(line.m[i]).toFixed(1)}h0`).join('')}, drawing);
        } else {
          if (line.a) element('path', {class: 'band c' + n % 8, d: path(line, at[n], i => line.b[i]) + path(line, back, i => line.a[i]).replace('M', 'L') + 'Z'}, drawing);
          element('path', {class: 'line c' + n % 8, d: path(line, at[n], i => line.m[i])}, drawing);
        }
      });
    };
    const reset = button(tools, 'All steps', 'Show all steps of ' + data.title, () => { [from, to] = whole; draw(); });
    reset.hidden = true;
    button(tools, 'CSV', 'Download ' + data.title + ' as CSV', () => download(figure.id, [['line', 'first_step', 'last_step', 'mean', 'least', 'most'],
      ...data.lines.flatMap(line => line.x.map((step, i) => [line.n, (line.f || line.x)[i], step, line.m[i], (line.a || line.m)[i], (line.b || line.m)[i]]))]));
    const nearest = (line, step) => {
      let low = 0, high = line.x.length - 1;
      while (high - low > 1) { const middle = (low + high) >> 1; line.x[middle] < step ? low = middle : high = middle; }
      return Math.abs(line.x[low] - step) <= Math.abs(line.x[high] - step) ? low : high;
    };
    const tell = step => {
      chosen = step;
      cursor.setAttribute('d', `M${x(step).toFixed(1)} ${T}V${H - B}`);
      const lines = data.lines.map(line => {
        const i = nearest(line, step);
        return line.n + ': ' + short(line.m[i]) + (data.unit ? ' ' + data.unit : '')
          + (line.a && line.b[i] > line.a[i] ? ` (${short(line.a[i])} to ${short(line.b[i])})` : '') + (data.lines.length > 1 && line.x[i] !== step ? ' at ' + line.x[i] : '');
      });
      return ['step ' + step + (scaled(step) ? ` (${scaled(step)})` : '') + '\n' + lines.join('\n'), x(step)];
    };
    const longest = data.lines.reduce((a, b) => b.x.length > a.x.length ? b : a);
    const stepAt = at => from + (at - L) / (W - L - R) * (to - from);
    const place = cursorOf(figure, svg, at => {
      if (at === null || at < L || at > W - R) { cursor.setAttribute('d', ''); return ['', 0]; }
      return tell(longest.x[nearest(longest, stepAt(at))]);
    }, by => by ? tell(longest.x[Math.max(0, Math.min(longest.x.length - 1, nearest(longest, chosen === null ? from : chosen) + by))]) : null);
    svg.addEventListener('pointerdown', event => { begun = place(event)[0]; });
    svg.addEventListener('pointermove', event => {
      if (begun === null) return;
      const [now] = place(event);
      range.setAttribute('d', Math.abs(now - begun) > 4 ? `M${begun} ${T}H${now}V${H - B}H${begun}Z` : '');
    });
    window.addEventListener('pointerup', event => {
      if (begun === null) return;
      const [a, b] = [begun, place(event)[0]].sort((p, q) => p - q);
      begun = null; range.setAttribute('d', '');
      if (b - a > 4) { [from, to] = [Math.max(whole[0], stepAt(a)), Math.min(whole[1], stepAt(b))]; draw(); }
    });
    const again = () => { [from, to] = whole; draw(); };
    svg.addEventListener('dblclick', again);
    svg.addEventListener('keydown', event => { if (event.key === 'Escape') again(); });
    fit(figure, svg, H, width => { W = width; cursor.setAttribute('d', ''); draw(); });
  };
  const heat = (figure, svg, data, tools) => {
    const map = svg.querySelector('.heat'), of = map.dataset, left = +of.left, height = +of.height;
    const texts = svg.querySelectorAll('.grid text'), last = texts[texts.length - 1];
    let at = [0, 0], width = +of.width;
    fit(figure, svg, svg.viewBox.baseVal.height, all => {
      const part = (all - left - 10) / (DRAWN - left - 10);
      width = +of.width * part; last.setAttribute('x', all - 10);
      map.setAttribute('transform', `translate(${left * (1 - part)} 0) scale(${part} 1)`);
    });
    const tell = (column, row) => {
      at = [column, row];
      const seconds = data.cells[row][column];
      return [`rank ${data.rows[row]}, steps ${data.columns[column]}\n` + (seconds === null ? 'no record'
        : `${short(seconds)} s of its own a step, ${(seconds / data.median).toFixed(2)} x median`), left + column * width];
    };
    cursorOf(figure, svg, (x, y) => {
      const column = Math.floor((x - left) / width), row = Math.floor(y / height);
      return x !== null && data.columns[column] && data.rows[row] ? tell(column, row) : ['', 0];
    }, (right, down) => tell(Math.max(0, Math.min(data.columns.length - 1, at[0] + right)), Math.max(0, Math.min(data.rows.length - 1, at[1] + down))));
    button(tools, 'CSV', 'Download the ranks as CSV', () => download('ranks', [['ranks', ...data.columns], ...data.cells.map((row, i) => [data.rows[i], ...row])]));
  };
  for (const figure of document.querySelectorAll('figure.chart')) {
    const data = JSON.parse(figure.querySelector('script').textContent);
    const tools = document.createElement('span');
    tools.className = 'tools';
    figure.insertBefore(tools, figure.firstChild);
    (data.heat ? heat : chart)(figure, figure.querySelector(':scope > svg'), data, tools);
  }
  addEventListener('beforeprint', () => document.querySelectorAll('details').forEach(one => { one.open = true; }));
})();
