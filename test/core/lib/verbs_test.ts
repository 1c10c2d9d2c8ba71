import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { portOf, type Verbs } from '../../../core/lib/verbs.ts'
import type { Chain } from '../../../core/ports/mod.ts'
import { pathsIn } from '../../graph.ts'

type Port = { ask(): number; name?: string }
const inner: Port = { ask: () => 1 }

test('a wrapped port has the verbs of the record, and those that are absent stay absent', () => {
  const wrapped = portOf<Port>({ ask: () => inner.ask() + 1, name: inner.name })
  expect([wrapped.ask(), Object.keys(wrapped)]).toEqual([2, ['ask']])
})

test('a verb that a wrapper leaves out does not compile, an optional one neither', () => {
  // @ts-expect-error `name` is neither passed on nor wrapped.
  expect(portOf<Port>({ ask: inner.ask })).toHaveProperty('ask')
  const withFresh = (chain: Verbs<Chain>): Verbs<Chain & { fresh?(): void }> =>
    // @ts-expect-error A wrapper of today's chain lacks a verb that is added to the port.
    ({ ...chain })
  expect(withFresh).toBeFunction()
})

describe('no function wraps a port by a spread, which would pass on verbs that nobody has thought of', () => {
  const WRAPPERS =
    /^(?:export )?(?:async )?function \w+\(([^)]*)\): (Chain|Vendors|\w+Vendor|Meter|Storage|Objects) \{$([^]*?)^\}$/gm
  const spreads = (text: string) =>
    [...text.matchAll(WRAPPERS)].filter(([, parameters = '', port, body = '']) => {
      const wrapped = parameters.split(', ').find((parameter) => parameter.trim().endsWith(`: ${port}`))
      return wrapped && body.includes(`...${wrapped.trim().split(':', 1)[0]},`)
    })

  /** `Vendors` is a table that embedding programs add to: what they declare has to pass through. */
  const OPEN_TABLE = 'core/endpoint/health_status.ts'

  test('in core, adapters and server, but for the table that embedding programs add to', () => {
    const paths = pathsIn(['core', 'adapters', 'server']).filter((path) => path.endsWith('.ts'))
    const text = (path: string) => readFileSync(join(import.meta.dirname, '../../..', path), 'utf8')
    expect(paths.filter((path) => spreads(text(path)).length > 0)).toEqual([OPEN_TABLE])
    expect(spreads(text(OPEN_TABLE)).map(([, , port]) => port)).toEqual(['Vendors'])
    expect(paths.flatMap((path) => text(path).match(WRAPPERS) ?? []).length).toBeGreaterThan(20)
  })

  test('and the search finds one', () => {
    const timely = 'function timely(chain: Chain, clock: Clock): Chain {\n  return {\n    ...chain,\n  }\n}\n'
    expect([spreads(timely).length, spreads(timely.replace('...chain,', '')).length]).toEqual([1, 0])
  })
})
