import { describe, expect, test } from 'bun:test'
import { predictionVenues, VENUE_ROOTS } from '../../../../adapters/providers/polymarket/markets.ts'
import { predexon } from '../../../../adapters/providers/predexon/markets.ts'
import { calm, KEY, outcome, setup } from '../lib/provider_kit.ts'

function recorded() {
  const seen: { readonly url: string; readonly init: RequestInit }[] = []
  const { clock, log } = setup('')
  const ports = {
    clock,
    log,
    fetch: async (url: string, init: RequestInit) => (seen.push({ url, init }), Response.json({ ok: true })),
  }
  return { seen, log, venues: predictionVenues(ports), aggregator: predexon({ ...ports, key: KEY }) }
}

const { gamma, data, clob, kalshi } = VENUE_ROOTS
const SERVED = {
  'polymarket/markets': `${gamma}/markets`,
  'polymarket/markets/123': `${gamma}/markets/123`,
  'polymarket/events/slug/who-wins': `${gamma}/events/slug/who-wins`,
  'polymarket/trades': `${data}/trades`,
  'polymarket/book': `${clob}/book`,
  'polymarket/prices-history': `${clob}/prices-history`,
  'kalshi/markets': `${kalshi}/markets`,
  'kalshi/trades': `${kalshi}/markets/trades`,
  'kalshi/series/KXHIGHNY': `${kalshi}/series/KXHIGHNY`,
}

describe('predictionVenues()', () => {
  test.each(Object.entries(SERVED))('asks for %s at %s, with the query and no key', async (path, url) => {
    const { venues, seen } = recorded()
    await venues.ask({ path, query: 'limit=1' }, calm())
    expect(seen.map((each) => [each.url, each.init.headers])).toEqual([
      [`${url}?limit=1`, { accept: 'application/json' }],
    ])
  })

  test.each([
    'polymarket',
    'polymarket/order',
    'polymarket/auth/api-key',
    'polymarket/constructor',
    '__proto__/markets',
    'kalshi/portfolio/balance',
    'kalshi/login',
    'binance/candles/BTCUSDT',
    'uma',
    'evil/markets',
  ])('has nothing at %s, and asks nobody', async (path) => {
    const { venues, seen, log } = recorded()
    expect([await outcome(venues.ask({ path, query: '' }, calm()), log), seen]).toEqual(['NOT_FOUND', []])
  })
})

test('predexon() asks for everything below its one root, with its key', async () => {
  const { aggregator, seen } = recorded()
  await aggregator.ask({ path: 'uma/resolutions', query: '' }, calm())
  await aggregator.ask({ path: 'polymarket/wallet/identities', query: '', body: { addresses: ['0x1'] } }, calm())
  expect(
    seen.map(({ url, init: { method, body, headers } }) => [
      url,
      method,
      body,
      (headers as Record<string, string>)['x-api-key'],
    ]),
  ).toEqual([
    ['https://api.predexon.com/v2/uma/resolutions', 'GET', undefined, KEY],
    ['https://api.predexon.com/v2/polymarket/wallet/identities', 'POST', '{"addresses":["0x1"]}', KEY],
  ])
})
