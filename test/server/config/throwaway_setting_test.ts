/** A new setting is one entry of the schema: its type, default, variable, mistakes and documentation follow. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type * as ConfigModule from '../../../server/config/mod.ts'
import type { Config } from '../../../server/config/mod.ts'
import type * as TablesModule from '../settings_tables.ts'
import { good } from './config_kit.ts'

const ROOT = join(import.meta.dirname, '../../..')
const ENTRY = `    dark_mode: defaulted(
      'Serves pages with light text on a dark ground.',
      Type.Boolean({ default: false }),
    ),
`
let copy: string

/** A tree whose configuration has one more setting in its schema; everything else is the real one. */
beforeAll(() => {
  copy = mkdtempSync(join(tmpdir(), 'farebox-setting-'))
  for (const room of ['core', 'adapters', 'node_modules', 'package.json'])
    symlinkSync(join(ROOT, room), join(copy, room))
  mkdirSync(join(copy, 'server'))
  for (const room of readdirSync(join(ROOT, 'server')).filter((name) => name !== 'config'))
    symlinkSync(join(ROOT, 'server', room), join(copy, 'server', room))
  cpSync(join(ROOT, 'server/config'), join(copy, 'server/config'), { recursive: true })
  mkdirSync(join(copy, 'test/server'), { recursive: true })
  cpSync(join(ROOT, 'test/server/settings_tables.ts'), join(copy, 'test/server/settings_tables.ts'))
  const schema = join(copy, 'server/config/file.ts')
  const source = readFileSync(schema, 'utf8')
  const before = '    bare_v1: defaulted(\n'
  expect(source.split(before)).toHaveLength(2)
  writeFileSync(schema, source.replace(before, ENTRY + before))
})
afterAll(() => rmSync(copy, { recursive: true }))

test('a boolean setting touches its schema and its user, and nothing else', async () => {
  const { parseConfig } = (await import(join(copy, 'server/config/mod.ts'))) as typeof ConfigModule
  const { withTables } = (await import(join(copy, 'test/server/settings_tables.ts'))) as typeof TablesModule
  const read = (toml: string, env = {}) => {
    const result = parseConfig(toml, env)
    return result.ok ? (result.config as Config & { readonly dark_mode: boolean }).dark_mode : result.mistakes
  }
  expect(read('')).toBe(false)
  expect(read('dark_mode = true')).toBe(true)
  expect(read('dark_mode = true', { DARK_MODE: 'false' })).toBe(false)
  expect(read('', { DARK_MODE: 'true' })).toBe(true)
  expect(read('dark_mode = 1')).toEqual(['dark_mode: must be true or false, without quotes, got 1'])
  expect(read('', { DARK_MODE: 'yes' })).toEqual(['DARK_MODE: must be true or false, without quotes, got "yes"'])
  expect(read('dark_mod = true')).toEqual(['dark_mod: there is no such setting; did you mean dark_mode?'])
  const page = withTables(readFileSync(join(ROOT, 'server/docs/configuration.md'), 'utf8'))
  expect(page).toContain(
    '| `dark_mode` | `DARK_MODE` | `false` | Serves pages with light text on a dark ground. `true` or `false`. |',
  )
})

test('the type of a setting is that of its schema', () => {
  const { bare_v1, port, contact }: { bare_v1: boolean; port: number; contact?: string } = good('')
  expect([typeof bare_v1, typeof port, contact]).toEqual(['boolean', 'number', undefined])
})
