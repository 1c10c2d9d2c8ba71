/** Alerts: each condition once when it begins and once when it ends, to a real receiver, signed. */
import { afterAll, describe, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { type AlertReport, type Condition, watcher } from '../../../server/signals/alerts.ts'
import { findersOf, type Watched } from '../../../server/signals/conditions.ts'
import { webhook } from '../../../server/signals/webhook.ts'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { kit, START, testClock, testLog } from '../../kit.ts'

const LOW: Condition = {
  event: 'gas_low',
  subject: '0xabc',
  severity: 'warning',
  gateway: 'base',
  summary: 'It is low.',
}

function watched() {
  const clock = testClock()
  const log = testLog()
  const reports: string[] = []
  let found: readonly Condition[] | Error = []
  const { round } = watcher({
    finders: [
      {
        name: 'gas',
        async find() {
          if (found instanceof Error) throw found
          return found
        },
      },
    ],
    clock,
    log,
    report: ({ event, subject, state }) => void reports.push(`${event} ${subject} ${state}`),
  })
  return { reports, log, round: async (next: readonly Condition[] | Error) => ((found = next), await round()) }
}

describe('a condition', () => {
  test('is reported once when it begins and once when it ends, and again when it comes back', async () => {
    const { reports, round } = watched()
    for (let n = 0; n < 5; n++) await round([LOW])
    expect(reports).toEqual(['gas_low 0xabc started'])
    for (let n = 0; n < 5; n++) await round([])
    expect(reports).toEqual(['gas_low 0xabc started', 'gas_low 0xabc ended'])
    await round([LOW])
    expect(reports).toHaveLength(3)
  })

  test('that comes and goes from one round to the next is one alert', async () => {
    const { reports, round } = watched()
    for (let n = 0; n < 6; n++) await round(n % 2 === 0 ? [LOW] : [])
    expect(reports).toEqual(['gas_low 0xabc started'])
  })

  test('of another subject is another alert', async () => {
    const { reports, round } = watched()
    await round([LOW, { ...LOW, subject: '0xdef' }])
    expect(reports).toEqual(['gas_low 0xabc started', 'gas_low 0xdef started'])
  })

  test('keeps its state while it cannot be determined, which is logged once', async () => {
    const { reports, round, log } = watched()
    await round([LOW])
    for (let n = 0; n < 5; n++) await round(new Error('no answer'))
    expect(reports).toEqual(['gas_low 0xabc started'])
    expect(log.lines.map(({ message }) => message)).toEqual(['a check for alerts failed'])
  })
})

describe('a gateway process', () => {
  function find(options: Partial<Watched> = {}, made = kit()) {
    const finders = findersOf({
      gateways: [made.gateway],
      storage: made.ports.storage,
      objects: made.ports.objects,
      clock: made.clock,
      lowAccounts: () => [],
      clockTrouble: () => undefined,
      directories: ['/data'],
      freeShare: async () => 0.5,
      ...options,
    })
    return async () => (await Promise.all(finders.map((each) => each.find()))).flat()
  }

  test('that is well has no alerts', async () => {
    expect(await find()()).toEqual([])
  })

  test.each<[string, Partial<Watched>, Partial<Condition>]>([
    [
      'an account that runs low',
      { lowAccounts: () => [{ gateway: 'base', address: '0xabc', reason: 'it holds 0 ETH' }] },
      { event: 'gas_low', gateway: 'base', subject: '0xabc', summary: expect.stringContaining('it holds 0 ETH') },
    ],
    ['a clock that is wrong', { clockTrouble: () => 'it is 9 s ahead' }, { event: 'clock_skew' }],
    [
      'a disk that is nearly full',
      { freeShare: async () => 0.049 },
      { event: 'disk_low', subject: '/data', summary: 'Only 4 % of the disk under /data is free.' },
    ],
    [
      'an object store that fails',
      { objects: { put: () => Promise.reject(new Error('503 Slow Down')) } },
      { event: 'objects_unreachable', severity: 'critical' },
    ],
    [
      'a storage that is away',
      {
        storage: {
          getCall: () => Promise.reject(new Error('no connection')),
          unsettled: async () => [],
          listOpen: async () => [],
          listAuthorizations: async () => [],
        },
      },
      { event: 'storage_unreachable', severity: 'critical' },
    ],
  ])('reports %s', async (_, options, expected) => {
    expect(await find(options)()).toEqual([expect.objectContaining(expected)])
  })

  test('an object store that hangs is unreachable; one that is back ends the alert, and is asked once a minute', async () => {
    let store: () => Promise<void> = async () => {}
    let requests = 0
    const { gateway, ports, clock, log } = kit()
    const reports: string[] = []
    const watched: Watched = {
      gateways: [gateway],
      storage: ports.storage,
      objects: { put: () => (requests++, store()) },
      clock,
      lowAccounts: () => [],
      clockTrouble: () => undefined,
      directories: [],
    }
    const { round } = watcher({
      finders: findersOf(watched).filter(({ name }) => name === 'objects'),
      clock,
      log,
      report: ({ event, state }) => void reports.push(`${event} ${state}`),
    })
    await round()
    await round()
    expect([requests, reports]).toEqual([1, []])
    store = () => new Promise(() => {})
    await clock.advance(60_000)
    const hanging = round()
    await clock.advance(10_000)
    await hanging
    expect(reports).toEqual(['objects_unreachable started'])
    store = async () => {}
    await round()
    await round()
    expect(reports).toEqual(['objects_unreachable started', 'objects_unreachable ended'])
  })

  test('reports payments whose outcome has been unknown for ten minutes', async () => {
    const made = kit({ name: 'base' })
    made.chain.simulate('late')
    await made.buyer().buy()
    const unresolved = async () => (await find({}, made)()).filter(({ event }) => event === 'payments_unresolved')
    await made.clock.advance(9 * 60_000)
    expect(await unresolved()).toEqual([])
    await made.clock.advance(3 * 60_000)
    expect(await unresolved()).toEqual([
      expect.objectContaining({ event: 'payments_unresolved', gateway: 'base', severity: 'critical' }),
    ])
  })

  test('reports payments that nobody could send, well before they end', async () => {
    const chain = memoryChain()
    const settle = async () => ({ kind: 'unknown' as const, reason: 'another replica holds the key' })
    const made = kit({ name: 'base', chain: { ...chain, settle } })
    const { body } = await made.buyer().buy()
    const round = async () => {
      await made.clock.advance(30_000)
      await made.gateway.maintain()
      return await find({}, made)()
    }
    expect([await round(), await round()]).toEqual([[], []])
    expect(await round()).toEqual([
      expect.objectContaining({
        event: 'payments_unsettled',
        gateway: 'base',
        severity: 'critical',
        summary: expect.stringContaining('the first authorization ends in 510 s'),
        details: { calls: [body.id], reasons: ['another replica holds the key'] },
      }),
    ])
  })

  test('reports a gateway that has no gas', async () => {
    const { ports } = kit()
    const closed = () => ({ code: 'no_gas' as const, reason: 'the relayer holds 0 ETH' })
    const made = kit({ name: 'base', ports: { chain: { ...ports.chain, closed } } })
    expect(await find({}, made)()).toEqual([
      expect.objectContaining({
        event: 'sales_stopped',
        subject: 'no_gas',
        summary: 'The gateway sells nothing: no account can pay for settlements.',
      }),
    ])
  })
})

describe('the webhook', () => {
  const SECRET = `whsec_${Buffer.from('a secret of the operator').toString('base64')}`
  const report: AlertReport = { ...LOW, state: 'started', at: START, since: START }
  const servers: { stop(now: boolean): Promise<void> }[] = []
  afterAll(async () => void (await Promise.all(servers.map((server) => server.stop(true)))))

  function receiver(statuses: number[] = []) {
    const received: { headers: Headers; text: string }[] = []
    const server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      async fetch(request) {
        received.push({ headers: request.headers, text: await request.text() })
        return new Response('ok', { status: statuses.shift() ?? 200 })
      },
    })
    servers.push(server)
    return { received, url: `${server.url}secret-path` }
  }

  function sender(url: string, clock = testClock()) {
    const log = testLog()
    let count = 0
    return { clock, log, hook: webhook({ url, secret: SECRET, clock, log, newId: () => `${++count}` }) }
  }

  test('gets text for people and fields for programs, signed as Standard Webhooks', async () => {
    const { received, url } = receiver()
    const { hook } = sender(url)
    hook.send(report)
    hook.send({ ...report, state: 'ended', at: START + 120_000 })
    await hook.flush(1_000)
    expect(received.map(({ text }) => JSON.parse(text))).toEqual([
      {
        text: '[base] Warning: It is low.',
        event: 'gas_low',
        state: 'started',
        severity: 'warning',
        gateway: 'base',
        at: '2026-11-20T00:00:00.000Z',
        summary: 'It is low.',
        details: { subject: '0xabc', since: '2026-11-20T00:00:00.000Z' },
      },
      expect.objectContaining({ text: '[base] Over after 2 min: It is low.', state: 'ended' }),
    ])
    const { headers, text } = received[0] as (typeof received)[number]
    const signed = `${headers.get('webhook-id')}.${headers.get('webhook-timestamp')}.${text}`
    const expected = createHmac('sha256', 'a secret of the operator').update(signed).digest('base64')
    expect(headers.get('webhook-signature')).toBe(`v1,${expected}`)
    expect(headers.get('webhook-timestamp')).toBe(String(START / 1000))
  })

  test('that fails is tried again with the same id, later each time, and the URL is never logged', async () => {
    const { received, url } = receiver([500, 503])
    const waits: number[] = []
    const clock = testClock()
    const { hook, log } = sender(url, { ...clock, wait: async (ms: number) => void waits.push(ms) } as typeof clock)
    hook.send(report)
    while (received.length < 3) await clock.settle()
    expect(waits).toEqual([1_000, 2_000])
    expect(new Set(received.map(({ headers }) => headers.get('webhook-id'))).size).toBe(1)
    expect(JSON.stringify(log.lines)).not.toMatch(/secret|127\.0\.0\.1/)
    expect(log.lines).toHaveLength(1)
  })

  test('that nobody answers is given up after eight attempts, as an alert in the log, without the URL', async () => {
    const [log, clock] = [testLog(), testClock()]
    const instant = { ...clock, wait: async () => {} }
    const hook = webhook({ url: 'http://127.0.0.1:9/secret-path', clock: instant, log, newId: () => '1' })
    hook.send(report)
    while (!log.lines.some(({ level }) => level === 'alert')) await clock.settle()
    expect(log.lines.at(-1)?.message).toBe('an alert could not be delivered')
    expect(JSON.stringify(log.lines)).not.toContain('secret-path')
    hook.close()
  })

  test('keeps at most a hundred alerts while it cannot deliver, and drops the oldest', async () => {
    const { hook, log } = sender('http://127.0.0.1:9/')
    for (let n = 0; n < 103; n++) hook.send({ ...report, subject: String(n) })
    expect(log.lines.filter(({ message }) => message.includes('dropped'))).toHaveLength(3)
    hook.close()
  })
})
