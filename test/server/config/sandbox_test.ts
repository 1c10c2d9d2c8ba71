/** Where sandboxes run: by key, by file, and by mistake. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { delimiter, dirname } from 'node:path'
import { systemClock as clock } from '../../../adapters/local.ts'
import { findPrograms } from '../../../adapters/providers/pyodide/machine.ts'
import { realVendors } from '../../../server/config/mod.ts'
import type { Environment } from '../../../server/config/settings.ts'
import { serviceVendors } from '../../../server/wiring/services.ts'
import { testLog } from '../../kit.ts'
import { PROGRAMS } from '../../programs/mod.ts'
import { isFull } from '../../scope.ts'
import { good, mistakes, servedBy, settingsOf } from './config_kit.ts'

const E2B = { E2B_API_KEY: 'e2b_s3cret' }
const MODAL = { MODAL_TOKEN_ID: 'ak', MODAL_TOKEN_SECRET: 'as-s3cret' }

const KEY = { KEY: `0x${'11'.repeat(32)}` }
const REAL =
  '[[gateways]]\nname = "base"\nnetwork = "eip155:8453"\npay_to = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"\nrpc_url = "http://127.0.0.1:1"\nrelayer_key_env = "KEY"'

describe('sandboxes', () => {
  test('are nobody’s when nothing is said, and come to life by a key, which is the operator’s to pay for', () => {
    expect([servedBy(good(REAL, KEY), 'sandbox'), realVendors(good(''))]).toEqual([undefined, []])
    const [e2b, modal] = [good('', E2B), good('', MODAL)]
    expect([servedBy(e2b, 'sandbox'), settingsOf(e2b, 'sandbox'), realVendors(e2b)]).toEqual([
      ['e2b'],
      { e2b_api_key: 'e2b_s3cret' },
      ['e2b'],
    ])
    expect([servedBy(modal, 'sandbox'), settingsOf(modal, 'sandbox'), realVendors(modal)]).toEqual([
      ['modal'],
      { modal_token_id: 'ak', modal_token_secret: 'as-s3cret' },
      ['modal'],
    ])
  })

  test('run where the file or the environment says', () => {
    const sandboxOf = (toml: string, env: Environment) => {
      const config = good(toml, env)
      return [servedBy(config, 'sandbox'), settingsOf(config, 'sandbox'), realVendors(config)]
    }
    expect(sandboxOf('sandbox = "modal"\nmodal_app = "shop"', { ...E2B, ...MODAL })).toMatchObject([
      ['modal'],
      { modal_app: 'shop' },
      ['modal'],
    ])
    expect(sandboxOf('e2b_template = "python-3-11"', { ...E2B, E2B_BASE_URL: 'http://e.lan' })).toMatchObject([
      ['e2b'],
      { e2b_base_url: 'http://e.lan', e2b_template: 'python-3-11' },
      ['e2b'],
    ])
    expect(sandboxOf('', { SANDBOX: 'embedded', SANDBOX_MOST: '9', SANDBOX_MEMORY_MB: '128' })).toEqual([
      ['embedded'],
      { sandbox_most: 9, sandbox_memory_mb: 128 },
      [],
    ])
    expect(sandboxOf('sandbox = "off"', E2B)).toEqual([[], undefined, []])
  })

  test('say what is missing, what is too much, and never a value', () => {
    expect(mistakes('', { ...E2B, ...MODAL })).toEqual([
      'sandbox: not set; E2B_API_KEY and MODAL_TOKEN_ID are both set, so sandbox (SANDBOX) must choose one of e2b and modal',
    ])
    expect(mistakes('sandbox = "e2b"')).toEqual([
      'sandbox: e2b needs the environment variable E2B_API_KEY, which is not set (The API key of E2B.)',
    ])
    expect(mistakes('', { MODAL_TOKEN_ID: 'ak' })).toEqual([
      'sandbox: modal needs the environment variable MODAL_TOKEN_SECRET, which is not set (The token secret of Modal.)',
    ])
    expect(mistakes('e2b_template = "x"\nmodal_app = "y"')).toEqual([
      'e2b_template (E2B_TEMPLATE): has no effect unless sandbox (SANDBOX) is e2b, which needs E2B_API_KEY',
      'modal_app (MODAL_APP): has no effect unless sandbox (SANDBOX) is modal, which needs MODAL_TOKEN_ID and MODAL_TOKEN_SECRET',
    ])
    expect(mistakes('sandbox_most = 2', E2B)).toEqual([
      'sandbox_most (SANDBOX_MOST): has no effect unless sandbox (SANDBOX) is embedded',
    ])
    expect(mistakes(`sandbox_most = 2\n${REAL}`, KEY)).toEqual([
      'sandbox_most (SANDBOX_MOST): has no effect unless sandbox (SANDBOX) is embedded',
    ])
    expect(settingsOf(good('sandbox_most = 2'), 'sandbox')).toEqual({ sandbox_most: 2 })
    expect(mistakes('sandbox = "embedded"\ndatabase_url = "postgres://a@b/c"').join()).toContain(
      'sandbox: embedded belongs to one process, and several processes may share this database (DATABASE_URL). Set sandbox to e2b or modal, or keep',
    )
    expect(mistakes('', { SANDBOX: 'docker', SANDBOX_MOST: '0' })).toHaveLength(2)
    expect(
      mistakes('', { E2B_API_KEY: 'two s3cret', E2B_BASE_URL: 'https://s3cret:x@e.example' }).join(),
    ).not.toContain('s3cret')
  })

  // Deno is a program of the full tests; the server looks for it on PATH.
  const path = process.env.PATH
  beforeAll(() => {
    if (isFull) process.env.PATH = `${dirname(findPrograms(PROGRAMS).deno)}${delimiter}${path}`
  })
  afterAll(() => {
    process.env.PATH = path
  })

  test('of which nothing is set run here on devnet if Deno is there, and elsewhere the log says what is missing', async () => {
    const wired = (isDevnet: boolean) => {
      const [log, undo] = [testLog(), [] as (() => unknown)[]]
      const config = isDevnet ? good('') : good(REAL, KEY)
      const timed = <Vendor>(_name: string, vendor: Vendor) => vendor
      return { log, undo, ...serviceVendors(config, { clock, log, undo, isDevnet, nodes: {}, timed }) }
    }
    const devnet = wired(true)
    if (isFull) expect([devnet.sandbox?.name, devnet.undo.length]).toEqual(['embedded', 1])
    for (const step of devnet.undo) await step()
    const real = wired(false)
    expect([real.sandbox, real.log.lines[0]?.level]).toEqual([undefined, 'info'])
    expect(real.log.lines[0]?.fields.missing).toContain(
      'sandbox: needs E2B_API_KEY or MODAL_TOKEN_ID and MODAL_TOKEN_SECRET or sandbox = "embedded" (SANDBOX)',
    )
  })
})
