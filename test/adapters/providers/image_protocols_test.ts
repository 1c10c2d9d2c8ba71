/**
 * Anything that a vendor may do to any protocol: each adapter goes through the one HTTP module, and through nothing
 * else.
 */
import { describe, expect, test } from 'bun:test'
import { makerOf, protocolsOf } from './lib/protocols.ts'
import { calm, drip, flood, FOX, ODD_REPLIES, outcome, setup, standIn, until } from './lib/provider_kit.ts'

const protocols = [...protocolsOf('images').keys()]

describe.each(protocols)('%s', (protocol) => {
  const on = (answer: Parameters<typeof standIn>[0], more: Parameters<typeof setup>[1] = {}) => {
    const server = standIn(answer)
    const made = setup(server.url, more)
    return { ...made, server, vendor: makerOf('images', protocol)(made.config) }
  }

  test.each([...ODD_REPLIES, ['a bare 404', 'operator', () => new Response(null, { status: 404 })] as const])(
    '%s reads as %s',
    async (_, expected, answer) => {
      const { vendor, log } = on(answer)
      expect(await outcome(vendor.generate(FOX, calm()), log)).toBe(expected)
    },
  )

  test('a reply without end is let go of', async () => {
    const { state, body } = flood('{"data":"')
    const { vendor, log } = on(() => new Response(body), { maxBytes: 1_000_000 })
    expect(await outcome(vendor.generate(FOX, calm()), log)).toBe('failure')
    await until(() => state.cancelled)
  })

  test.each([
    ['silence', () => new Promise<Response>(() => {})],
    ['a reply that stops halfway', () => new Response(drip())],
  ])('%s ends at the deadline', async (_, answer) => {
    const { vendor, log, clock, server } = on(answer)
    const work = vendor.generate(FOX, calm())
    work.catch(() => {})
    await until(() => server.seen.length === 1)
    clock.expire()
    expect(await outcome(work, log)).toBe('UPSTREAM_TIMEOUT')
  })

  test('one failure among many calls ends the others', async () => {
    let gone = 0
    const { vendor, log, server } = on(
      (_, request) => {
        if (server.seen.length === 3) return new Response(null, { status: 429 })
        request.signal.addEventListener('abort', () => gone++)
        return new Promise<Response>(() => {})
      },
      { perCall: 1 },
    )
    expect(await outcome(vendor.generate({ ...FOX, n: 10 }, calm()), log)).toBe('RATE_LIMITED 30')
    await until(() => gone >= 2)
    expect(server.seen.length).toBeLessThanOrEqual(4)
  })

  test('a rate limit names the maker of the model', async () => {
    const { vendor } = on(() => new Response(null, { status: 429 }))
    await expect(vendor.generate(FOX, calm())).rejects.toMatchObject({
      parts: { fields: { source: 'maker-x' }, headers: { 'retry-after': '30', 'x-ratelimit-source': 'maker-x' } },
    })
  })
})
