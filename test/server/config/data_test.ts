/** Who searches the web page by page, and whose data are passed on: by key, by file, and by mistake. */
import { describe, expect, test } from 'bun:test'
import { realVendors } from '../../../server/config/mod.ts'
import { notForSale } from '../../../server/config/data.ts'
import { good, mistakes } from './config_kit.ts'

describe('web search, prediction markets and DeFi data', () => {
  test('are nobody’s when nothing is said, and the log says which setting is missing', () => {
    const config = good('')
    expect([config.websearch, config.prediction, config.defi, realVendors(config)]).toEqual([
      undefined,
      undefined,
      undefined,
      [],
    ])
    expect(notForSale(config)).toEqual([
      'websearch: EXA_API_KEY is not set',
      'pm: neither PREDEXON_API_KEY nor prediction (PREDICTION) is set',
      'defidata: defidata (DEFIDATA) is not set',
    ])
  })

  test('come to life by their keys, which are the operator’s to pay for', () => {
    const config = good('', { EXA_API_KEY: 'e', PREDEXON_API_KEY: 'p', DEFILLAMA_API_KEY: 'd' })
    expect(config.websearch).toEqual({ by: 'exa', key: 'e', baseUrl: undefined })
    expect(config.prediction).toEqual({ by: 'predexon', key: 'p', baseUrl: undefined })
    expect(config.defi).toEqual({ by: 'defillama', key: 'd', baseUrl: undefined })
    expect([realVendors(config), notForSale(config)]).toEqual([['exa', 'predexon', 'defillama'], []])
  })

  test('can be named without a key where none is needed, at other addresses, or switched off', () => {
    const open = good('prediction = "venues"\ndefidata = "defillama"\ndefillama_base_url = "http://llama.lan"')
    expect([open.prediction, open.defi, realVendors(open)]).toEqual([
      { by: 'venues' },
      { by: 'defillama', key: undefined, baseUrl: 'http://llama.lan' },
      [],
    ])
    const off = good('websearch = "off"', {
      EXA_API_KEY: 'e',
      PREDEXON_API_KEY: 'p',
      PREDICTION: 'off',
      DEFIDATA: 'sample',
    })
    expect([off.websearch, off.prediction, off.defi]).toEqual([{ by: 'off' }, { by: 'off' }, { by: 'sample' }])
    expect(good('exa_base_url = "http://e.lan"\nsearch = []', { EXA_API_KEY: 'e' }).websearch).toEqual({
      by: 'exa',
      key: 'e',
      baseUrl: 'http://e.lan',
    })
  })

  test('say what is missing, what has no meaning, and never a value', () => {
    expect(mistakes('websearch = "exa"\nprediction = "predexon"')).toEqual([
      'websearch: exa needs the environment variable EXA_API_KEY, which is not set',
      'prediction: predexon needs the environment variable PREDEXON_API_KEY, which is not set; venues needs none',
    ])
    expect(mistakes('', { PREDEXON_BASE_URL: 'http://p.lan', DEFILLAMA_BASE_URL: 'http://d.lan' })).toEqual([
      'predexon_base_url (PREDEXON_BASE_URL): has no meaning unless prediction (PREDICTION) is predexon, which needs PREDEXON_API_KEY',
      'defillama_base_url (DEFILLAMA_BASE_URL): has no meaning unless defidata (DEFIDATA) is defillama',
    ])
    expect(mistakes('', { DEFIDATA: 'zapper' })).toEqual([
      'DEFIDATA: must be one of defillama, sample, off, got "zapper"',
    ])
    const told = mistakes('', { PREDEXON_API_KEY: 'two s3cret', PREDEXON_BASE_URL: 'https://s3cret:x@p.example' }).join(
      '\n',
    )
    expect([
      told.includes('PREDEXON_API_KEY: holds a blank'),
      told.includes('predexon_base_url (PREDEXON_BASE_URL): must be the root'),
      told.includes('s3cret'),
    ]).toEqual([true, true, false])
  })
})
