/** Sandboxes: what they cost, whose they are, and what becomes of one that is not paid for. */
import { describe, expect, test } from 'bun:test'
import { scriptedSandbox, type SandboxScript } from '../../../fakes/sandbox.ts'
import { ApiError, type SandboxVendor } from '../../../../core/mod.ts'
import { door, kit, type KitOptions } from '../../../kit.ts'
import vectors from '../../../vectors/sandbox_quotes.json'

const CREATE = '/api/v1/sandbox/create'
const EXEC = '/api/v1/sandbox/exec'
const STATUS = '/api/v1/sandbox/status'
const TERMINATE = '/api/v1/sandbox/terminate'
const ID = 'sb_0123456789abcdef0123456789abcdef'
const MINUTE = 60_000

function fixture(script: SandboxScript & { vendor?: Partial<SandboxVendor> } = {}, options: KitOptions = {}) {
  const sandbox = scriptedSandbox(script)
  const subject = kit({
    ...options,
    ports: { ...options.ports, vendors: { sandbox: { ...sandbox, ...script.vendor } } },
  })
  const alice = subject.buyer()
  const rent = async (body: unknown = {}) => (await alice.buy(body, { path: CREATE })).body.sandbox_id as string
  const first = () => sandbox.made.get('scripted-1')
  return { ...subject, sandbox, alice, rent, first }
}

describe('the price', () => {
  test.each(vectors)(
    'of $path is $amount micro-USDC ($spec) (contract 16.1, 16.2, 16.3, 16.4)',
    async ({ path, body, amount, printed }) => {
      const { status, body: reply } = await fixture().alice.ask(body, { path })
      expect([status, reply.accepts[0].amount, reply.price.amount, reply.price.currency]).toEqual([
        402,
        amount,
        printed,
        'USD',
      ])
    },
  )

  test('says whether it is flat or by the hour, and that nothing is paid back (contract 16.3, 16.11)', async () => {
    const { alice } = fixture()
    expect((await alice.ask({ timeout: 300 }, { path: CREATE })).body.price).toEqual({
      amount: '0.011000',
      currency: 'USD',
      model: 'flat',
    })
    expect((await alice.ask({ timeout: 5400, gpu: 'L4' }, { path: CREATE })).body.price).toEqual({
      amount: '3.001000',
      currency: 'USD',
      model: 'hourly',
      hourly_rate_usd: 2,
      duration_hours: 1.5,
      transaction_fee: 0.001,
      refund_policy: expect.stringContaining('not refunded'),
    })
    expect((await alice.ask(undefined, { path: CREATE, method: 'GET' })).body.price).toMatchObject({
      amount: '0.011000',
      model: 'flat',
    })
  })
})

describe('an order', () => {
  const wrong: readonly [path: string, field: string, body: unknown][] = [
    [CREATE, 'image', { image: 'python:3.12' }],
    [CREATE, 'image', { image: 'ubuntu' }],
    [CREATE, 'timeout', { timeout: 9 }],
    [CREATE, 'timeout', { timeout: 86_401 }],
    [CREATE, 'timeout', { timeout: 60.5 }],
    [CREATE, 'timeout', { timeout: '60' }],
    [CREATE, 'cpu', { cpu: 0 }],
    [CREATE, 'cpu', { cpu: 1.5 }],
    [CREATE, 'cpu', { cpu: 8.5, gpu: 'T4' }],
    [CREATE, 'memory', { memory: 64 }],
    [CREATE, 'memory', { memory: 1_025 }],
    [CREATE, 'memory', { memory: 32_769, gpu: 'T4' }],
    [CREATE, 'gpu', { gpu: 'B200' }],
    [CREATE, 'setup_commands', { setup_commands: ['pip install x'] }],
    [CREATE, 'volumes', { volumes: [] }],
    [CREATE, '__proto__', JSON.parse('{"__proto__":{"cpu":1}}')],
    [EXEC, 'sandbox_id', { sandbox_id: '../etc', command: ['ls'] }],
    [EXEC, 'sandbox_id', { command: ['ls'] }],
    [EXEC, 'command', { sandbox_id: ID }],
    [EXEC, 'command', { sandbox_id: ID, command: 'ls' }],
    [EXEC, 'command', { sandbox_id: ID, command: [] }],
    [EXEC, 'command', { sandbox_id: ID, command: Array.from({ length: 33 }, () => 'a') }],
    [EXEC, 'command.1', { sandbox_id: ID, command: ['a', 'x'.repeat(2_001)] }],
    [EXEC, 'command', { sandbox_id: ID, command: ['a\0b'] }],
    [EXEC, 'command.0', { sandbox_id: ID, command: [''] }],
    [EXEC, 'timeout', { sandbox_id: ID, command: ['a'], timeout: 61 }],
    [EXEC, 'timeout', { sandbox_id: ID, command: ['a'], timeout: 0 }],
    [EXEC, 'stdin', { sandbox_id: ID, command: ['a'], stdin: 'x' }],
    [STATUS, 'sandbox_id', {}],
    [STATUS, 'sandbox_id', { sandbox_id: `${ID}0` }],
    [TERMINATE, 'force', { sandbox_id: ID, force: true }],
  ]
  test.each(wrong)(
    'to %s is told before the quote what is wrong with %s (contract 16.5, 16.6, 16.8)',
    async (path, field, body) => {
      const { status, body: reply, headers } = await fixture().alice.ask(body, { path })
      expect([status, reply.details[0].path, headers.has('payment-required')]).toEqual([400, field, false])
    },
  )

  test('may be at each of its bounds (contract 16.5, 16.8)', async () => {
    const { alice } = fixture()
    const words = Array.from({ length: 32 }, () => 'x'.repeat(2_000))
    for (const [path, body] of [
      [CREATE, { timeout: 10 }],
      [CREATE, { timeout: 86_400 }],
      [CREATE, { cpu: 1, memory: 1_024 }],
      [CREATE, { cpu: 8, memory: 32_768, gpu: 'T4' }],
      [EXEC, { sandbox_id: ID, command: words, timeout: 1 }],
      [EXEC, { sandbox_id: ID, command: ['ls'], timeout: 60 }],
    ] as const)
      expect([path, (await alice.ask(body, { path })).status]).toEqual([path, 402])
  })

  test('without a word is for five minutes of one core and 512 MB; an empty setup is none, and a GPU brings more (contract 16.5, 16.6, 16.7)', async () => {
    const { alice, sandbox, clock } = fixture()
    const { body } = await alice.buy({ setup_commands: [] }, { path: CREATE })
    expect(body).toEqual({
      sandbox_id: expect.stringMatching(/^sb_[0-9a-f]{32}$/),
      status: 'running',
      created_at: new Date(clock.now()).toISOString(),
      expires_at: new Date(clock.now() + 300_000).toISOString(),
      config: { image: 'python:3.11', timeout: 300, cpu: 1, memory: 512, gpu: null },
    })
    expect((await alice.buy({ gpu: 'A100', cpu: 8, memory: 32_768 }, { path: CREATE })).body.config).toMatchObject({
      gpu: 'A100',
      cpu: 8,
    })
    expect([...sandbox.made.values()].map(({ order }) => order)).toEqual([
      { seconds: 300, cpu: 1, memory: 512 },
      { seconds: 300, cpu: 8, memory: 32_768, gpu: 'A100' },
    ])
  })

  test('for a GPU is 503 in place of the quote where the vendor has none', async () => {
    const { alice } = fixture({ hasGpus: false })
    expect([
      (await alice.ask({ gpu: 'T4' }, { path: CREATE })).status,
      (await alice.ask({}, { path: CREATE })).status,
    ]).toEqual([503, 402])
  })
})

describe('a sandbox', () => {
  test('runs commands until it is terminated, and reads as terminated from then on (contract 16.1, 16.8, 16.9, 16.11)', async () => {
    const { alice, rent, chain } = fixture({
      answer: (command) => ({ stdout: command.join('|'), stderr: 'e', returncode: 3 }),
    })
    const sandbox_id = await rent()
    const ran = await alice.buy({ sandbox_id, command: ['python', '-c', 'x y'] }, { path: EXEC })
    expect([ran.status, ran.body]).toEqual([200, { sandbox_id, stdout: 'python|-c|x y', stderr: 'e', returncode: 3 }])
    expect((await alice.buy({ sandbox_id }, { path: STATUS })).body).toEqual({
      sandbox_id,
      status: 'running',
      returncode: null,
    })
    for (let times = 0; times < 2; times++)
      expect((await alice.buy({ sandbox_id }, { path: `/api/v1/modal/sandbox/terminate` })).body).toEqual({
        sandbox_id,
        status: 'terminated',
      })
    expect((await alice.buy({ sandbox_id }, { path: STATUS })).body).toEqual({
      sandbox_id,
      status: 'terminated',
      returncode: 137,
    })
    const late = await alice.buy({ sandbox_id, command: ['ls'] }, { path: EXEC })
    expect([late.status, late.body.status, chain.transfers.map(({ value }) => value)]).toEqual([
      404,
      'terminated',
      [11_000n, 2_000n, 2_000n, 2_000n, 2_000n, 2_000n],
    ])
  })

  test('of another wallet is treated as unknown: never run, revealed or charged (contract 16.10)', async () => {
    const { rent, buyer, chain, first } = fixture()
    const [sandbox_id, bob] = [await rent(), buyer('bob')]
    for (const [path, more] of [
      [EXEC, { command: ['cat', 'secret'] }],
      [STATUS, {}],
      [TERMINATE, {}],
    ] as const) {
      const [theirs, none] = [
        await bob.buy({ sandbox_id, ...more }, { path }),
        await bob.buy({ sandbox_id: ID, ...more }, { path }),
      ]
      expect([theirs.status, none.status]).toEqual([404, 404])
      expect(theirs.body).toEqual(none.body)
    }
    expect([chain.transfers.length, first()?.isAlive]).toEqual([1, true])
  })

  test('belongs to its wallet behind every gateway of the storage, and after a restart', async () => {
    const { alice, rent, restart } = fixture()
    const sandbox_id = await rent()
    expect((await alice.buy({ sandbox_id }, { path: STATUS, gateway: restart() })).body.status).toBe('running')
  })

  test('that its process has lost, or that has outlived its time, reads as terminated', async () => {
    const { alice, rent, clock, first } = fixture()
    const [lost, over] = [await rent(), await rent()]
    const machine = first()
    if (machine) machine.isAlive = false
    expect((await alice.buy({ sandbox_id: lost }, { path: STATUS })).body.status).toBe('terminated')
    await clock.advance(300_000)
    expect((await alice.buy({ sandbox_id: over }, { path: STATUS })).body).toEqual({
      sandbox_id: over,
      status: 'terminated',
      returncode: null,
    })
    expect((await alice.buy({ sandbox_id: over, command: ['ls'] }, { path: EXEC })).status).toBe(404)
    await clock.advance(25 * 60 * MINUTE)
    expect((await alice.buy({ sandbox_id: over }, { path: STATUS })).status).toBe(404)
  })

  test('of a vendor that is no longer configured is unknown', async () => {
    const { alice, rent, ports, restart } = fixture()
    const sandbox_id = await rent()
    Object.assign(ports.vendors, { sandbox: scriptedSandbox({ name: 'another' }) })
    expect((await alice.buy({ sandbox_id }, { path: STATUS, gateway: restart() })).status).toBe(404)
  })
})

describe('a failure', () => {
  test('of the vendor is reported and not charged: full, unreachable, too slow', async () => {
    const busy = new ApiError('BUSY', { message: 'Full.', headers: { 'retry-after': '30' } })
    const { alice, chain } = fixture({ vendor: { create: () => Promise.reject(busy) } })
    const full = await alice.buy({}, { path: CREATE })
    expect([full.status, full.headers.get('retry-after'), chain.transfers]).toEqual([503, '30', []])
  })

  test('by timeout comes after the command’s own timeout plus five seconds, otherwise after fifteen', async () => {
    for (const [path, more, seconds] of [
      [EXEC, { command: ['x'], timeout: 7 }, 12],
      [STATUS, {}, 15],
      [TERMINATE, {}, 15],
    ] as const) {
      const silent = () => new Promise<never>(() => {})
      const { alice, rent, clock, chain } = fixture({ vendor: { exec: silent, status: silent, terminate: silent } })
      const asking = alice.buy({ sandbox_id: await rent(), ...more }, { path })
      await clock.advance(seconds * 1000 - 1)
      await clock.advance(1)
      const { status, body } = await asking
      expect([status, body.message, chain.transfers.length]).toEqual([
        504,
        `The sandbox did not answer within ${seconds} seconds. Nothing was charged.`,
        1,
      ])
    }
  })

  test('a sandbox that was ready too late is ended, and nobody’s', async () => {
    const ready = door()
    const script = scriptedSandbox()
    const { alice, clock, streamed, chain } = fixture({
      vendor: { ...script, create: async (order, at) => (await ready.passed, await script.create(order, at)) },
    })
    const buying = alice.buy({}, { path: CREATE })
    await streamed(120_000)
    expect((await buying).status).toBe(502)
    ready.open()
    await clock.settle()
    expect([script.made.get('scripted-1')?.isAlive, chain.transfers]).toEqual([false, []])
  })
})

describe('a sandbox whose payment was refused', () => {
  test('is told to nobody, by no id that could be guessed, until a poll pays for it', async () => {
    const { alice, chain, first } = fixture()
    chain.simulate('refused')
    const payment = alice.sign(await alice.ask({}, { path: CREATE }))
    const withheld = await alice.buy({}, { path: CREATE, payment })
    expect([withheld.status, JSON.stringify(withheld.body).includes('sb_'), first()?.isAlive]).toEqual([
      402,
      false,
      true,
    ])
    const collected = await alice.poll(withheld.body.poll_url, payment)
    expect([collected.status, chain.transfers.length]).toEqual([200, 1])
    expect((await alice.buy({ sandbox_id: collected.body.sandbox_id, command: ['ls'] }, { path: EXEC })).status).toBe(
      200,
    )
  })

  test('can be paid for as long as it lives and no longer (contract 16.12)', async () => {
    const { alice, chain, streamed } = fixture()
    chain.simulate('refused')
    const withheld = await alice.buy({ timeout: 60 }, { path: CREATE })
    await streamed(61_000)
    const late = await alice.poll(
      withheld.body.poll_url,
      alice.sign(await alice.ask({ timeout: 60 }, { path: CREATE })),
    )
    expect([late.status, chain.transfers]).toEqual([404, []])
  })

  test('and that has ended meanwhile is not sold; one of which nobody can tell is', async () => {
    const { alice, chain, sandbox, ports, first } = fixture()
    const sign = async () => alice.sign(await alice.ask({}, { path: CREATE }))
    chain.simulate('refused')
    const url = (await alice.buy({}, { path: CREATE })).body.poll_url
    const machine = first()
    if (machine) machine.isAlive = false
    const late = await alice.poll(url, await sign())
    expect([late.status, late.body.message.includes('Nothing was charged'), chain.transfers]).toEqual([404, true, []])
    Object.assign(ports.vendors.sandbox ?? {}, { status: () => Promise.reject(new Error('away')) })
    expect([(await alice.poll(url, await sign())).status, chain.transfers.length, sandbox.made.size]).toEqual([
      200, 1, 1,
    ])
  })

  test('is ended when five minutes have gone by, however long it was to live, by whoever is there then; a paid one is not (contract 16.12)', async () => {
    const { alice, chain, streamed, idle, sandbox, rent, restart } = fixture()
    await rent({ timeout: 86_400 })
    chain.simulate('refused')
    await alice.buy({ timeout: 86_400 }, { path: CREATE })
    const another = restart()
    const alive = async () => (
      await another.maintain(),
      await idle(),
      [...sandbox.made.values()].map(({ isAlive }) => isAlive)
    )
    await streamed(6 * MINUTE)
    expect(await alive()).toEqual([true, true])
    await streamed(MINUTE + 10_000)
    expect(await alive()).toEqual([true, false])
  })

  test('is the last of its wallet until it is paid for, or has gone (contract 16.12)', async () => {
    const { alice, chain, clock, streamed, sandbox, ports } = fixture()
    const refuse = async () => (chain.simulate('refused'), await alice.buy({}, { path: CREATE }))
    const { body } = await refuse()
    const another = await alice.buy({}, { path: CREATE })
    expect([another.status, another.body.job_id, sandbox.made.size]).toEqual([402, body.job_id, 1])
    await alice.poll(body.poll_url, alice.sign(await alice.ask({}, { path: CREATE })))
    await refuse()
    await streamed(5 * MINUTE)
    await ports.storage.prune(clock.now())
    expect([(await alice.buy({}, { path: CREATE })).status, sandbox.made.size]).toEqual([200, 3])
  })

  test('and is not known to be refused is served, and lives', async () => {
    const { alice, chain, streamed, first, gateway, idle } = fixture()
    chain.simulate('dropped')
    const { status, headers, body } = await alice.buy({ timeout: 86_400 }, { path: CREATE })
    expect([status, headers.get('x-payment-settled'), body.status]).toEqual([200, 'false', 'running'])
    await streamed(8 * MINUTE)
    await gateway.maintain()
    await idle()
    expect(first()?.isAlive).toBe(true)
  })
})
