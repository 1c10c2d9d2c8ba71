/** The configuration guide says what the schema says. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import type { TSchema } from '@sinclair/typebox'
import { File, parseConfig } from '../../server/config/mod.ts'
import { namedIn, PAGE, rows, withTables } from './settings_tables.ts'

const page = readFileSync(PAGE, 'utf8')
const settings: Readonly<Record<string, TSchema>> = File.properties

test('the tables of the guide are those of the schema (bun test/server/settings_tables.ts --write)', () => {
  expect(page).toBe(withTables(page))
})

const REMEDY =
  'name the product whose provider has it in a marker <!-- settings for … --> of configuration.md, or put it in a section of server/config/file.ts'

test('a kind of models that a product declares gets its section from --write', () => {
  const without = page.replace(/^### audio$[^]*?(?=^### retention$)/m, '')
  expect(without).not.toContain('<!-- settings of audio -->')
  const written = withTables(without, ['audio'])
  expect(written).toContain(
    '### audio\n\n`[[audio]]`: changes to the audio catalog, by model `id`.\n\n<!-- settings of audio -->\n| Setting |',
  )
  expect(withTables(written, ['audio'])).toBe(written)
})

test('every setting is in one table of the guide, and every table of the file has its own', () => {
  const named = namedIn(page)
  const unplaced = Object.keys(settings).filter((name) => !named.includes(name))
  expect(unplaced.map((name) => `${name}: ${REMEDY}`)).toEqual([])
  expect(named.filter((name, at) => named.indexOf(name) !== at || !(name in settings))).toEqual([])
  const missing = Object.keys(rows).filter((name) => !page.includes(`<!-- settings of ${name} -->`))
  expect(missing.map((name) => `${name}: add its section with <!-- settings of ${name} --> and <!-- end -->`)).toEqual(
    [],
  )
})

test('every setting has a description in whole sentences', () => {
  const described = [settings, ...Object.values(rows).map(({ properties }) => properties)].flatMap((properties) =>
    Object.entries(properties),
  )
  expect(described.length).toBeGreaterThan(150)
  expect(
    described
      .filter(([, { description = '' }]) => !/^.{12,}\.( See \[[^\]]+\]\(#\w+\)\.)?$/s.test(description))
      .map(([name]) => name),
  ).toEqual([])
})

test('a default in the schema is what applies without the setting', () => {
  // The devnet has a folder of its own, so a gateway is configured.
  const gateway =
    '\n[[gateways]]\nname = "base"\nnetwork = "eip155:8453"\npay_to = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"\n' +
    'rpc_url = "http://127.0.0.1:8545"\nfacilitators = [{ url = "http://127.0.0.1:8546" }]\n'
  const without = parseConfig(gateway)
  expect(without).toMatchObject({ ok: true })
  const defaults = Object.entries(settings).filter(([, schema]) => schema.default !== undefined)
  expect(defaults.length).toBeGreaterThan(15)
  for (const [name, schema] of defaults) {
    const given = parseConfig(`${name} = ${JSON.stringify(schema.default)}${gateway}`)
    // A switch that is not told leaves its endpoint to decide, which is the same.
    if (name === 'reference_media') continue
    expect([name, given]).toEqual([name, without])
  }
})
