/** The pictures of core/README.md are true: their files, the order of the steps, their states and the folders. */
import { expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ALLOWED, graphOf, pathsIn } from './graph.ts'

const CORE = join(import.meta.dirname, '../core')
const README = read('README.md')
const [request = '', states = ''] = [...README.matchAll(/^```mermaid\n([^]*?)^```$/gm)].map(([, text = '']) => text)

/** Each box of the first picture by its name: the file that it stands for. */
const boxes = new Map(
  [...request.matchAll(/(\w+)\["([\w/]+\.ts)(?:<br>[^"]*)?"\]/g)].map(([, name = '', path = '']) => [name, path]),
)

function read(path: string): string {
  return readFileSync(join(CORE, path), 'utf8')
}

test('every file and folder that is named exists', () => {
  const named = [...README.matchAll(/[`"]([\w/]+(?:\/|\.ts|\.md))[`"<]/g)].map(([, path = '']) => path)
  expect(boxes.size).toBeGreaterThan(10)
  expect([...boxes.values(), ...named].filter((path) => !existsSync(join(CORE, path)))).toEqual([])
})

test('every delivery of an endpoint is in the picture', () => {
  const [, words = ''] = /switch \(endpoint\.delivery\) \{([^]*?)\n {2}\}/.exec(read('call/delivery/deliver.ts')) ?? []
  const deliveries = [...words.matchAll(/case '(\w+)'/g)].map(([, name = '']) => name)
  expect(deliveries.length).toBeGreaterThan(3)
  expect(deliveries.map((name) => boxes.get(name))).toEqual(deliveries.map((name) => `call/delivery/${name}.ts`))
})

test('a full arrow leads to a file that is reached by imports, or to the next step', () => {
  const graph = graphOf(pathsIn(['core']))
  const reached = new Map([...boxes.values()].map((path) => [path, reachedFrom(`core/${path}`)]))
  function reachedFrom(start: string): ReadonlySet<string> {
    const seen = new Set([start])
    for (const path of seen) for (const target of graph.get(path) ?? []) if (graph.has(target)) seen.add(target)
    return seen
  }
  const steps = reached.get('call/paid_call.ts')
  const isStep = (path: string) => path.startsWith('call/') && steps?.has(`core/${path}`)
  const arrows = request.split('\n').flatMap((line) => {
    const parts = line
      .split(/ -->(?:\|[^|]*\|)? /)
      .map((part) => part.split(' & ').map((box) => box.trim().split(/[[(]/, 1)[0] ?? ''))
    return parts
      .slice(1)
      .flatMap((targets, index) =>
        (parts[index] ?? []).flatMap((from) => targets.map((to) => [boxes.get(from), boxes.get(to)] as const)),
      )
  })
  const files = arrows.filter((arrow): arrow is readonly [string, string] => !arrow.includes(undefined))
  expect(files.length).toBeGreaterThan(10)
  expect(files.filter(([from, to]) => !reached.get(from)?.has(`core/${to}`) && !(isStep(from) && isStep(to)))).toEqual(
    [],
  )
})

test('the states are those of the types', () => {
  const sources = pathsIn(['core/ports', 'core/payment']).map((path) => readFileSync(join(CORE, '..', path), 'utf8'))
  const types = { work: 'WorkStatus', payment: 'PaymentStatus', authorization: 'BindingStatus' }
  for (const [name, type] of Object.entries(types)) {
    const [declared = ''] = sources.flatMap((text) => text.match(new RegExp(`type ${type} = ('[^\\n]*)`))?.[1] ?? [])
    const [, drawn = ''] = new RegExp(`state "${name}" as ${name} \\{([^}]*)\\}`).exec(states) ?? []
    const words = [/(\w+) -->/g, /--> (\w+)/g].flatMap((end) => [...drawn.matchAll(end)].map(([, word = '']) => word))
    expect([...new Set(words)].toSorted()).toEqual(
      [...declared.matchAll(/'(\w+)'/g)].map(([, word = '']) => word).toSorted(),
    )
  }
})

test('the folders are all there, each below those that it imports', () => {
  const [, table = ''] = README.split('| Folder |')
  const listed = [...table.matchAll(/^\| `(\w+)\/` \|/gm)].map(([, name = '']) => name)
  const folders = readdirSync(CORE, { withFileTypes: true }).filter(
    (entry) => entry.isDirectory() && entry.name !== 'notes',
  )
  expect(listed.toSorted()).toEqual(folders.map(({ name }) => name).toSorted())
  const wrong = listed.flatMap((name, at) =>
    (ALLOWED[name] ?? []).filter((other) => other !== 'engine' && !listed.slice(0, at).includes(other)),
  )
  expect(wrong).toEqual([])
})
