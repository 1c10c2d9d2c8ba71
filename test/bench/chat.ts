/**
 * Chat, side by side: a bare Bun proxy, `@portkey-ai/gateway` and Farebox (a free model; and a paid one, on a cash
 * chain) before one upstream, whole and streamed, at 1 and at 32 in flight, taking turns. And the memory of 500 open
 * streams. Prints, never asserts.
 */
import { memoryChain } from '../../adapters/chains/evm/memory.ts'
import type { Offer } from '../../core/mod.ts'
import { BUYERS, buyerName, type Facts } from './chat_gateways.ts'
import type { Measured } from './chat_load.ts'
import { type ChatProcesses, chatProcesses } from './chat_processes.ts'
import type { Pace } from './pace.ts'
import { portkey, portkeyHeaders } from './portkey.ts'
import { count, fixed, goal, median, table, total, verdict } from './print.ts'
import { UPSTREAM_JOB } from './upstream.ts'

type ChatBench = ChatProcesses & Pick<Pace, 'isQuick' | 'isOver'>

type Plan = { readonly rounds: number; readonly roundMs: number; readonly warmMs: number; readonly streams: number }

const FULL: Plan = { rounds: 4, roundMs: 350, warmMs: 500, streams: 500 }
const QUICK: Plan = { rounds: 3, roundMs: 250, warmMs: 250, streams: 500 }
/** Payments that may be used up in one round, by how many are in flight: more than any machine takes. */
const MAX_PAID: Readonly<Record<number, number>> = { 1: 2, 32: 5 }
const IN_FLIGHT = [1, 32, 256] as const
const SHAPES = ['whole', 'stream'] as const

/** The same id names a free row of Farebox's and its model upstream. */
const FREE_MODEL = 'openai/gpt-oss-120b'
const PAID_MODEL = 'openai/gpt-6-luna'

const COMPLETIONS = '/v1/chat/completions'
const OURS = '/api/v1/chat/completions'

const MESSAGES = [
  {
    role: 'system',
    content: 'You are a patient naturalist. Answer in plain words, in one paragraph, and say so when you do not know.',
  },
  { role: 'user', content: 'What does a fox do in winter, when the snow is deep and the mice are under it?' },
  {
    role: 'assistant',
    content:
      'It listens. A fox can hear a mouse move under a foot of snow, and then it jumps high and lands with its nose first.',
  },
  { role: 'user', content: 'And does the cold not trouble it? Please tell me about its fur as well.' },
]

type Shape = (typeof SHAPES)[number]
type Entrant = {
  readonly name: string
  readonly label: string
  readonly path: string
  readonly model: string
  readonly headers: Readonly<Record<string, string>>
  readonly port: number
  readonly isPaid?: boolean
}

export async function chat({ scratch, isQuick, isOver, profile, children }: ChatBench): Promise<void> {
  const plan = isQuick ? QUICK : FULL
  const { worker, generator } = chatProcesses({ scratch, profile, children })
  const load = generator()
  const model = await worker('upstream', {})
  const upstreamOf = (name: string) => `http://127.0.0.1:${model.port}/${name}/v1`
  const bare = await worker('bare', { baseUrl: upstreamOf('bare') })
  const free = await worker('farebox', { baseUrl: upstreamOf('free') })
  const paid = await worker('farebox', { baseUrl: upstreamOf('paid') })
  const rivals = (await Promise.all([portkey('node'), portkey('bun')])).flatMap((each) => each ?? [])
  children.push(...rivals.map(({ child }) => child))
  const field: readonly Entrant[] = [
    {
      name: 'direct',
      label: 'the upstream itself',
      path: `/direct${COMPLETIONS}`,
      model: FREE_MODEL,
      headers: {},
      port: model.port,
    },
    { name: 'bare', label: 'bare Bun proxy', path: COMPLETIONS, model: FREE_MODEL, headers: {}, port: bare.port },
    ...rivals.map(({ port, runtime }, index) => {
      const name = index === 0 ? 'portkey' : 'portkey2'
      return {
        name,
        label: `@portkey-ai/gateway, ${runtime}`,
        path: COMPLETIONS,
        model: FREE_MODEL,
        headers: portkeyHeaders(upstreamOf(name)),
        port,
      }
    }),
    { name: 'free', label: 'Farebox, free model', path: OURS, model: FREE_MODEL, headers: {}, port: free.port },
    {
      name: 'paid',
      label: 'Farebox, paid model',
      path: OURS,
      model: PAID_MODEL,
      headers: {},
      port: paid.port,
      isPaid: true,
    },
  ]
  const signer = memoryChain()
  const good = new Map<string, number>()
  const failures: string[] = []
  const seen = new Map<string, Measured[]>()
  let signedAt = 0

  /** Every round of the paid one brings payments of its own, signed before it is measured. */
  async function run(
    entrant: Entrant,
    { shape, inFlight, ms }: { shape: Shape; inFlight: number; ms: number },
  ): Promise<Measured> {
    const { name, port, isPaid = false } = entrant
    const isStream = shape === 'stream'
    const body = bodyOf(entrant, isStream)
    const requests = isPaid
      ? await signed(entrant, body, { signer, count: Math.ceil(ms * (MAX_PAID[inFlight] ?? 1)), from: signedAt })
      : [raw(entrant, body)]
    signedAt += isPaid ? requests.length : 0
    const measured = await load.run({ port, connections: inFlight, ms, isStream, isOnce: isPaid }, requests)
    good.set(name, (good.get(name) ?? 0) + measured.good)
    if (total(measured.bad) > 0)
      failures.push(
        `${name}, ${shape}, ${inFlight} in flight: ${JSON.stringify(measured.bad)} ${measured.complaint.slice(0, 400)}`,
      )
    return measured
  }

  for (const entrant of field) for (const shape of SHAPES) await run(entrant, { shape, inFlight: 32, ms: plan.warmMs })
  let played = 0
  for (let round = 0; round < plan.rounds && !(round > 0 && isOver()); round++, played++) {
    for (const shape of SHAPES) {
      for (const inFlight of IN_FLIGHT) {
        for (const entrant of round % 2 === 0 ? field : field.toReversed()) {
          const key = keyOf(entrant.name, shape, inFlight)
          seen.set(key, [...(seen.get(key) ?? []), await run(entrant, { shape, inFlight, ms: plan.roundMs })])
        }
      }
    }
  }
  const [{ requests }, { transfers }] = await Promise.all([model.facts(), paid.facts()])
  for (const { child } of rivals) child.kill()
  await Promise.all([free.stop(), paid.stop()])

  for (const shape of SHAPES) {
    console.log(
      `\nchat, ${shape === 'whole' ? 'whole answers of 1 KB' : 'streams of 50 pieces'}, ${played} rounds of ${plan.roundMs} ms each, taking turns; medians; added is what comes on top of the upstream's own`,
    )
    rateTable(shape)
  }
  const paced = (shape: Shape, inFlight: number) =>
    `${shape === 'whole' ? 'whole' : 'streamed'} at ${inFlight} in flight, the free model`
  for (const shape of SHAPES) {
    for (const inFlight of IN_FLIGHT) {
      goal(
        `of Portkey, ${paced(shape, inFlight)}; the bare proxy: ${fixed(ratio('bare', 'portkey', { shape, inFlight }), 2)}`,
        ratios('free', 'portkey', { shape, inFlight }),
        9,
      )
      goal(
        `of the bare proxy, ${paced(shape, inFlight)}`,
        ratios('free', 'bare', { shape, inFlight }),
        shape === 'whole' ? 0.6 : 0.8,
      )
    }
  }
  for (const inFlight of IN_FLIGHT)
    goal(
      `of the free model, paid, whole at ${inFlight} in flight`,
      ratios('paid', 'free', { shape: 'whole', inFlight }),
      0.5,
    )
  const later = behind('free', 'bare', { shape: 'stream', inFlight: 1 }, ({ first }) => first)
  verdict(
    later <= 1,
    `${fixed(later, 2)} ms later than the bare proxy comes the first streamed byte, at the median, 1 in flight (goal: at most 1)`,
  )
  audit(requests, transfers)
  await memory()

  bare.child.kill()
  load.stop()
  await model.stop()

  function rateTable(shape: Shape): void {
    const streamed = shape === 'stream' ? ['first byte ms', 'after bare ms'] : []
    table(
      [
        '',
        'in flight',
        'answers',
        'per second',
        'of bare',
        'of Portkey',
        'added p50 ms',
        'added p99 ms',
        ...streamed,
        'load busy',
      ],
      IN_FLIGHT.flatMap((inFlight) =>
        field.map(({ name, label }) => {
          const at = { shape, inFlight }
          const runs = seen.get(keyOf(name, shape, inFlight)) ?? []
          const added = (of: (run: Measured) => number) =>
            name === 'direct' ? `(${fixed(median(runs.map(of)), 2)})` : fixed(behind(name, 'direct', at, of), 2)
          const firsts = [
            fixed(median(runs.map(({ first }) => first)), 2),
            fixed(
              behind(name, 'bare', at, ({ first }) => first),
              2,
            ),
          ]
          return [
            label,
            String(inFlight),
            count(runs.reduce((sum, run) => sum + run.good, 0)),
            count(median(runs.map(rateOf))),
            fixed(ratio(name, 'bare', at), 2),
            fixed(ratio(name, 'portkey', at), 1),
            added(({ p50 }) => p50),
            added(({ p99 }) => p99),
            ...(shape === 'stream' ? firsts : []),
            fixed(median(runs.map(({ busy }) => busy)), 2),
          ]
        }),
      ),
    )
  }

  /** Round by round, for the machine may be slower in one than in another. */
  function ratios(name: string, base: string, { shape, inFlight }: { shape: Shape; inFlight: number }): number[] {
    const bases = seen.get(keyOf(base, shape, inFlight)) ?? []
    return (seen.get(keyOf(name, shape, inFlight)) ?? []).map(
      (run, round) => rateOf(run) / (bases[round] ? rateOf(bases[round]) : NaN),
    )
  }

  function ratio(name: string, base: string, at: { shape: Shape; inFlight: number }): number {
    return median(ratios(name, base, at))
  }

  function behind(
    name: string,
    base: string,
    { shape, inFlight }: { shape: Shape; inFlight: number },
    of: (run: Measured) => number,
  ): number {
    const bases = seen.get(keyOf(base, shape, inFlight)) ?? []
    return median(
      (seen.get(keyOf(name, shape, inFlight)) ?? []).map(
        (run, round) => of(run) - (bases[round] ? of(bases[round]) : NaN),
      ),
    )
  }

  /** Both ends count the same. */
  function audit(requests: Facts['requests'], transfers: number): void {
    const answered = (...names: string[]) => names.reduce((sum, name) => sum + (good.get(name) ?? 0), 0)
    const checks = [
      ['bare proxy: good answers', answered('bare'), 'requests at the upstream', requests.bare ?? 0],
      [
        'Portkey: good answers',
        answered('portkey', 'portkey2'),
        'requests at the upstream',
        (requests.portkey ?? 0) + (requests.portkey2 ?? 0),
      ],
      ['Farebox: free answers', answered('free'), 'requests at the upstream', requests.free ?? 0],
      ['Farebox: paid answers', answered('paid'), 'requests at the upstream', requests.paid ?? 0],
      ['Farebox: paid answers', answered('paid'), 'transfers on the cash chain', transfers],
    ] as const
    for (const [one, ours, two, theirs] of checks)
      console.log(`  ${ours === theirs ? 'equal ' : 'DIFFER'} ${one} ${count(ours)}, ${two} ${count(theirs)}`)
    verdict(failures.length === 0, failures.length === 0 ? 'no answer failed' : failures.join('\n        '))
  }

  /** Processes that have done nothing before but a little warming. */
  async function memory(): Promise<void> {
    console.log(`\nmemory with ${plan.streams} open streams, after a collection of garbage`)
    const rows = []
    for (const [name, label] of [
      ['farebox', 'Farebox, free model'],
      ['bare', 'bare Bun proxy'],
    ] as const) {
      const each = await worker(name, { baseUrl: upstreamOf('memory') })
      const template = field.find((entrant) => entrant.name === (name === 'bare' ? 'bare' : 'free'))
      if (!template) throw new Error('no such entrant')
      const entrant = { ...template, port: each.port }
      const started = (await each.facts()).rss
      await load.run({ port: each.port, connections: 32, ms: plan.warmMs, isStream: true }, [
        raw(entrant, bodyOf(entrant, true)),
      ])
      const warm = (await each.facts()).rss
      const streamed = await load.run(
        { port: each.port, connections: plan.streams, ms: 5_000, isStream: true, isOpen: true },
        [raw(entrant, bodyOf(entrant, true, { user: UPSTREAM_JOB }))],
      )
      const full = (await each.facts()).rss
      const open = streamed.good === plan.streams ? count(streamed.good) : `${count(streamed.good)} of ${plan.streams}`
      rows.push([
        label,
        fixed(started, 0),
        fixed(warm, 0),
        open,
        fixed(full, 0),
        fixed(((full - warm) * 1000) / Math.max(1, streamed.good), 0),
      ])
      each.child.kill()
    }
    table(['', 'idle MB', 'idle after work MB', 'streams', 'with them MB', 'KB each'], rows)
  }
}

const keyOf = (name: string, shape: Shape, inFlight: number): string => `${name} ${shape} ${inFlight}`
const rateOf = ({ good, seconds }: Measured): number => good / seconds

/** The usage is asked for by all, so that all pass on the same events. */
function bodyOf({ model }: Entrant, isStream: boolean, more: Readonly<Record<string, string>> = {}): string {
  return JSON.stringify({
    model,
    messages: MESSAGES,
    max_tokens: 400,
    stream: isStream,
    ...(isStream && { stream_options: { include_usage: true } }),
    ...more,
  })
}

function raw({ path, headers }: Entrant, body: string, payment?: string): string {
  const lines = Object.entries({
    host: '127.0.0.1',
    'content-type': 'application/json',
    ...headers,
    ...(payment && { 'payment-signature': payment }),
    'content-length': String(body.length),
  })
  return `POST ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`
}

/** As many requests as are wanted, each paid by another authorization, the wallets taking turns. */
async function signed(
  entrant: Entrant,
  body: string,
  { signer, count, from }: { signer: ReturnType<typeof memoryChain>; count: number; from: number },
): Promise<readonly string[]> {
  const response = await fetch(`http://127.0.0.1:${entrant.port}${entrant.path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  })
  const required = response.headers.get('payment-required')
  if (!required) throw new Error(`no challenge: ${response.status} ${await response.text()}`)
  const { accepts, resource } = JSON.parse(atob(required)) as { accepts: readonly [Offer]; resource: unknown }
  const wallets = Array.from({ length: BUYERS }, (_, index) => signer.wallet(buyerName(index)))
  return Array.from({ length: count }, (_, index) => {
    const payment = signer.sign(accepts[0], { from: wallets[(from + index) % BUYERS] ?? '', now: Date.now() })
    return raw(entrant, body, btoa(JSON.stringify({ ...payment, resource })))
  })
}
