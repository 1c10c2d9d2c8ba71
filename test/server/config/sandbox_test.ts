/** Where sandboxes run: by key, by file, and by mistake. */
import { describe, expect, test } from 'bun:test'
import { systemClock as clock } from '../../../adapters/local.ts'
import { realVendors } from '../../../server/config/mod.ts'
import { sandboxVendor } from '../../../server/wiring/sandbox.ts'
import { testLog } from '../../kit.ts'
import { good, mistakes } from './config_kit.ts'

const E2B = { E2B_API_KEY: 'e2b_s3cret' }
const MODAL = { MODAL_TOKEN_ID: 'ak', MODAL_TOKEN_SECRET: 'as-s3cret' }

describe('sandboxes', () => {
  test('are nobody’s when nothing is said, and come to life by a key, which is the operator’s to pay for', () => {
    expect([good('').sandbox, realVendors(good(''))]).toEqual([undefined, []])
    expect([good('', E2B).sandbox, realVendors(good('', E2B))]).toEqual([
      { by: 'e2b', key: 'e2b_s3cret', baseUrl: undefined, template: undefined },
      ['e2b'],
    ])
    expect([good('', MODAL).sandbox, realVendors(good('', MODAL))]).toEqual([
      { by: 'modal', tokenId: 'ak', tokenSecret: 'as-s3cret', app: undefined },
      ['modal'],
    ])
  })

  test('run where the file or the environment says', () => {
    expect(good('sandbox = "modal"\nmodal_app = "shop"', { ...E2B, ...MODAL }).sandbox).toMatchObject({
      by: 'modal',
      app: 'shop',
    })
    expect(good('e2b_template = "python-3-11"', { ...E2B, E2B_BASE_URL: 'http://e.lan' }).sandbox).toMatchObject({
      baseUrl: 'http://e.lan',
      template: 'python-3-11',
    })
    expect(good('', { SANDBOX: 'embedded', SANDBOX_MOST: '9', SANDBOX_MEMORY_MB: '128' }).sandbox).toEqual({
      by: 'embedded',
      most: 9,
      memory: 128,
    })
    expect([good('sandbox = "off"', E2B).sandbox, realVendors(good('sandbox = "off"', E2B))]).toEqual([
      { by: 'off' },
      [],
    ])
  })

  test('say what is missing, what is too much, and never a value', () => {
    expect(mistakes('', { ...E2B, ...MODAL })).toEqual([
      'sandbox: not set; E2B_API_KEY and MODAL_TOKEN_ID are both there, so sandbox (SANDBOX) has to say which of e2b and modal it is',
    ])
    expect(mistakes('sandbox = "e2b"')).toEqual([
      'sandbox: e2b needs the environment variable E2B_API_KEY, which is not set',
    ])
    expect(mistakes('', { MODAL_TOKEN_ID: 'ak' })).toEqual([
      'sandbox: modal needs the environment variable MODAL_TOKEN_SECRET, which is not set',
    ])
    expect(mistakes('e2b_template = "x"\nmodal_app = "y"')).toEqual([
      'e2b_template (E2B_TEMPLATE): has no meaning unless sandboxes run at E2B, which needs E2B_API_KEY',
      'modal_app (MODAL_APP): has no meaning unless sandboxes run at Modal, which needs MODAL_TOKEN_ID and MODAL_TOKEN_SECRET',
    ])
    expect(mistakes('sandbox_most = 2', E2B)).toEqual([
      'sandbox_most (SANDBOX_MOST): has no meaning unless sandboxes are embedded',
    ])
    const real =
      '[[gateways]]\nname = "base"\nnetwork = "eip155:8453"\npay_to = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"\nrpc_url = "http://127.0.0.1:1"\nrelayer_key_env = "KEY"'
    expect(mistakes(`sandbox_most = 2\n${real}`, { KEY: `0x${'11'.repeat(32)}` })).toEqual([
      expect.stringContaining('have a meaning where it (SANDBOX) says embedded'),
    ])
    expect(good('sandbox_most = 2').sandbox).toEqual({ by: 'embedded', most: 2 })
    expect(mistakes('sandbox = "embedded"\ndatabase_url = "postgres://a@b/c"').join()).toContain(
      'embedded sandboxes belong to one process',
    )
    expect(mistakes('', { SANDBOX: 'docker', SANDBOX_MOST: '0' })).toHaveLength(2)
    expect(
      mistakes('', { E2B_API_KEY: 'two s3cret', E2B_BASE_URL: 'https://s3cret:x@e.example' }).join(),
    ).not.toContain('s3cret')
  })

  test('of which nothing is set run here on devnet, and elsewhere the log says once what is missing', async () => {
    const wired = (isDevnet: boolean) => {
      const [log, undo] = [testLog(), [] as (() => unknown)[]]
      return { log, undo, ...sandboxVendor({}, { clock, log, undo, isDevnet, timed: (_name, vendor) => vendor }) }
    }
    const devnet = wired(true)
    expect([devnet.sandbox?.name, devnet.undo.length, devnet.log.lines]).toEqual(['embedded', 1, []])
    await devnet.undo[0]?.()
    const real = wired(false)
    expect([
      real.sandbox,
      real.log.lines.map(({ level }) => level),
      JSON.stringify(real.log.lines).includes('E2B_API_KEY'),
    ]).toEqual([undefined, ['info'], true])
  })
})
