/** The index of the contract, against the endpoints that the gateway has. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { endpoints } from '../core/mod.ts'

const CONTRACT = readFileSync(join(import.meta.dir, '../core/CONTRACT.md'), 'utf8')

test('the index of the contract names the areas of every route', () => {
  const areas = [...CONTRACT.matchAll(/^## (\d+\. .*)$/gm)].map(([, title = '']) => title)
  const rows = [...CONTRACT.matchAll(/^\| `(\/[^`]*)` \| (\d+\. [^|]+) \| ([\d, ]+) \|$/gm)].map(
    ([, start = '', area = '', also = '']) => ({ start, area, also, routes: [] as (typeof endpoints)[number][] }),
  )
  for (const endpoint of endpoints) {
    const [row] = rows
      .filter(({ start }) => endpoint.path.startsWith(start))
      .toSorted((one, other) => other.start.length - one.start.length)
    if (!row) {
      const general = { sold: '1, 2, 3, 4', poll: '2, 3, 4' } as Readonly<Record<string, string>>
      const line = `| \`${endpoint.path}\` | N. Title of its section | ${general[endpoint.kind] ?? '3, 4'} |`
      throw new Error(`the index of core/CONTRACT.md lacks ${endpoint.path}: add the line ${line}`)
    }
    row.routes.push(endpoint)
  }
  for (const { start, area, also, routes: found } of rows) {
    const [own = ''] = area.split('.', 1)
    const kinds = new Set(found.map(({ kind }) => kind))
    const general = ['3', '4']
    if (kinds.has('sold') || kinds.has('poll')) general.unshift('2')
    if (kinds.has('sold')) general.unshift('1')
    expect([start, found.length > 0, areas.includes(area), also]).toEqual([
      start,
      true,
      true,
      general.filter((number) => number !== own).join(', '),
    ])
  }
})
