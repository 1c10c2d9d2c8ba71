/** Who searches the web page by page, and whose data are passed on: by key, by file, and by mistake. */
import { describe, expect, test } from 'bun:test'
import { realVendors } from '../../../server/config/mod.ts'
import { offByDefault } from '../../../server/config/services/reports.ts'
import { good, mistakes, servedBy, settingsOf } from './config_kit.ts'

const gateway =
  '[[gateways]]\nname = "real"\nnetwork = "eip155:8453"\npay_to = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"\nrpc_url = "http://127.0.0.1:1"\nrelayer_key_env = "KEY"'

const PRODUCTS = ['websearch', 'prediction', 'defi'] as const

describe('web search, prediction markets and DeFi data', () => {
  test('are nobody’s when nothing is said, and the log says which setting is missing', () => {
    const config = good(gateway, { KEY: `0x${'11'.repeat(32)}` })
    expect([...PRODUCTS.map((product) => servedBy(config, product)), realVendors(config)]).toEqual([
      undefined,
      undefined,
      undefined,
      [],
    ])
    expect(offByDefault(config)).toEqual(
      expect.arrayContaining([
        'websearch: needs EXA_API_KEY',
        'prediction: needs PREDEXON_API_KEY or prediction = "venues" (PREDICTION)',
        'defi: needs DEFILLAMA_API_KEY',
      ]),
    )
    expect(PRODUCTS.map((product) => servedBy(good(''), product))).toEqual([['corpus'], ['sample'], ['sample']])
  })

  test('come to life by their keys, which are the operator’s to pay for', () => {
    const config = good('', { EXA_API_KEY: 'e', PREDEXON_API_KEY: 'p', DEFILLAMA_API_KEY: 'd' })
    expect(PRODUCTS.map((product) => servedBy(config, product))).toEqual([['exa'], ['predexon'], ['defillama']])
    expect(PRODUCTS.map((product) => settingsOf(config, product))).toEqual([
      { exa_api_key: 'e' },
      { predexon_api_key: 'p' },
      { defillama_api_key: 'd' },
    ])
    expect(realVendors(config)).toEqual(['exa', 'predexon', 'defillama'])
  })

  test('can be named without a key where none is needed, at other addresses, or switched off', () => {
    const open = good('prediction = "venues"\ndefidata = "defillama"\ndefillama_base_url = "http://llama.lan"')
    expect([servedBy(open, 'prediction'), settingsOf(open, 'defi'), realVendors(open)]).toEqual([
      ['venues'],
      { defillama_base_url: 'http://llama.lan' },
      [],
    ])
    const off = good('websearch = "off"', {
      EXA_API_KEY: 'e',
      PREDEXON_API_KEY: 'p',
      PREDICTION: 'off',
      DEFIDATA: 'sample',
    })
    expect(PRODUCTS.map((product) => servedBy(off, product))).toEqual([[], [], ['sample']])
    const elsewhere = good('exa_base_url = "http://e.lan"\nsearch = []', { EXA_API_KEY: 'e' })
    expect(settingsOf(elsewhere, 'websearch')).toEqual({ exa_api_key: 'e', exa_base_url: 'http://e.lan' })
  })

  test('say what is missing, what has no meaning, and never a value', () => {
    expect(mistakes('websearch = "exa"\nprediction = "predexon"')).toEqual([
      'websearch: exa needs the environment variable EXA_API_KEY, which is not set (The API key of Exa.)',
      'prediction: predexon needs the environment variable PREDEXON_API_KEY, which is not set (The API key of Predexon.); venues needs none',
    ])
    expect(mistakes('', { PREDEXON_BASE_URL: 'http://p.lan', DEFILLAMA_BASE_URL: 'http://d.lan' })).toEqual([
      'defillama_base_url (DEFILLAMA_BASE_URL): has no effect unless defidata (DEFIDATA) is defillama',
      'predexon_base_url (PREDEXON_BASE_URL): has no effect unless prediction (PREDICTION) is predexon, which needs PREDEXON_API_KEY',
    ])
    expect(mistakes('', { DEFIDATA: 'zapper' })).toEqual([
      expect.stringMatching(/^DEFIDATA: must be one of .*defillama.*, sample, off, got "zapper"$/),
    ])
    const errors = mistakes('', {
      PREDEXON_API_KEY: 'two s3cret',
      PREDEXON_BASE_URL: 'https://s3cret:x@p.example',
    }).join('\n')
    expect([
      errors.includes('PREDEXON_API_KEY: contains a blank'),
      errors.includes('predexon_base_url (PREDEXON_BASE_URL): must be the base URL'),
      errors.includes('s3cret'),
    ]).toEqual([true, true, false])
  })
})
