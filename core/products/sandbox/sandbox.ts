/** Python sandboxes leased to the paying wallet: create, run commands, status, terminate (contract 16.2). */
import { type Static, Type } from '@sinclair/typebox'
import { within } from '../../lib/timers.ts'
import { GPUS, type Gpu } from '../../ports/vendors/sandbox.ts'
import { gpuRates, plainRate, SHORT_SECONDS } from './catalog.ts'
import { type Context, type Offering, type Order, paid, type Price, STANDARD_PRICES } from '../../endpoint/mod.ts'
import { idFrom } from '../../lib/ids.ts'
import { ApiError } from '../../http/errors.ts'
import { quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import type { Json } from '../../lib/json.ts'
import { dollars } from '../../x402/money.ts'
import { flatPrice } from '../../x402/pricing.ts'
import { sandboxPrice } from './price.ts'
import { endUnpaid, SANDBOX, sandboxOfPayer, vendorIn, watchUnpaid } from './sandbox_record.ts'

/** US dollars for one request to a sandbox, before the fee. */
const PER_QUESTION = '0.001'
const IMAGE = 'python:3.11'
const MAX_SECONDS = 86_400
const MAX_CORES = { plain: 1, gpu: 8 }
const MAX_MEMORY = { plain: 1_024, gpu: 32_768 }
const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS
/**
 * How long a sandbox whose payment was refused can still be paid for: the life of its authorization. After that and the
 * time of a settlement it is terminated, because the operator pays for it meanwhile.
 */
const CLAIM_MS = 5 * MINUTE_MS
const SETTLING_MS = 2 * MINUTE_MS
/** How long after its end a sandbox is still reported as terminated. */
const REMEMBERED_MS = DAY_MS
/** Grace time of a command, and timeout of other vendor calls. */
const EXTRA_SECONDS = 5
const QUESTION_SECONDS = 15
const REFUND_POLICY =
  'Paid in advance for the whole time. A sandbox that is terminated earlier is not refunded; one that does not start costs nothing.'

const sandboxId = Type.String({
  description: 'sb_<id>, from create; known to the wallet that paid for it, and to no other.',
})
const ID = /^sb_[0-9a-f]{32}$/
const returncode = Type.Union([Type.Integer(), Type.Null()])

/** Shared by all four endpoints. */
const shared = {
  tag: 'sandbox',
  delivery: 'inline',
  unknownFields: 'refused',
  failure: 'Sandbox failed',
  retention: { unclaimedMs: 2 * DAY_MS, settledMs: DAY_MS },
} as const

const at = (name: string) =>
  ({ name: `sandbox.${name}`, path: `/api/v1/sandbox/${name}`, aliases: [`/api/v1/modal/sandbox/${name}`] }) as const

const createInput = Type.Object({
  image: Type.Optional(Type.Literal(IMAGE, { default: IMAGE })),
  timeout: Type.Optional(
    Type.Integer({
      minimum: 10,
      maximum: MAX_SECONDS,
      default: SHORT_SECONDS,
      description: 'Seconds until it ends by itself. Up to 300 cost the flat price; above that it is paid by the hour.',
    }),
  ),
  cpu: Type.Optional(
    Type.Number({ minimum: 0.125, maximum: MAX_CORES.gpu, default: 1, description: 'Cores: at most 1, with a GPU 8.' }),
  ),
  memory: Type.Optional(
    Type.Integer({
      minimum: 128,
      maximum: MAX_MEMORY.gpu,
      default: 512,
      description: 'MB: at most 1024, with a GPU 32768.',
    }),
  ),
  gpu: Type.Optional(Type.Union(GPUS.map((gpu) => Type.Literal(gpu)))),
  setup_commands: Type.Optional(
    Type.Array(Type.Unknown(), {
      maxItems: 0,
      description: 'Not supported; only an empty list is taken. Run them with exec.',
    }),
  ),
})
type SandboxOrder = {
  readonly image: string
  readonly timeout: number
  readonly cpu: number
  readonly memory: number
  readonly gpu?: Gpu
}

const create = paid({
  ...shared,
  ...at('create'),
  summary: 'Create a Python sandbox',
  description: `A machine of your own that runs Python for a while. It belongs to the wallet that pays: no other can use it, or learn of it. ${REFUND_POLICY}`,
  input: createInput,
  output: Type.Object({
    sandbox_id: Type.String(),
    status: Type.Literal('running'),
    created_at: Type.String(),
    expires_at: Type.String({ description: 'When it ends by itself.' }),
    config: Type.Object({
      image: Type.String(),
      timeout: Type.Integer(),
      cpu: Type.Number(),
      memory: Type.Integer(),
      gpu: Type.Union([Type.String(), Type.Null()]),
    }),
    runtime: Type.Optional(Type.String({ description: 'What runs in it, where that is not the image.' })),
  }),
  example: { image: IMAGE, timeout: SHORT_SECONDS, cpu: 1, memory: 512 },
  errors: ['BUSY', 'RATE_LIMITED', 'UPSTREAM_FAILED', 'UPSTREAM_TIMEOUT'],
  effects: {
    costsOperator: true,
    maintenanceTask: { everyMs: MINUTE_MS, can: ({ sandbox }) => sandbox !== undefined, do: endUnpaid },
  },
  check: checkOrder,
  isAvailable: (input, { vendors: { sandbox } }) =>
    sandbox !== undefined && (input.gpu === undefined || sandbox.hasGpus),
  price: (input, context) => priceOf(orderOf(input), context),
  priceRange: ({ prices }) => ({
    min: sandboxPrice(plainRate, SHORT_SECONDS + 1, prices),
    max: sandboxPrice(gpuRates.H100, MAX_SECONDS, prices),
  }),

  async run(order) {
    const { timeout, cpu, memory, gpu, image } = orderOf(order.input as Static<typeof createInput>)
    const { clock, signal } = order
    const vendor = vendorIn(order)
    const { handle } = await vendor.create({ seconds: timeout, cpu, memory, ...(gpu && { gpu }) }, { signal })
    const now = clock.now()
    const ends = now + timeout * 1000
    const until = Math.min(ends, now + CLAIM_MS)
    try {
      signal.throwIfAborted()
      if (ends > until)
        await watchUnpaid(order, { vendor: vendor.name, handle, call: order.id, due: until + SETTLING_MS }, ends)
      signal.throwIfAborted()
    } catch (error) {
      await within(clock, QUESTION_SECONDS * 1000, (lateSignal) =>
        vendor.terminate(handle, { signal: lateSignal }),
      ).catch(() => {})
      throw error
    }
    // A refused payment shows the call id to its buyer; the handle stays secret, so the id is not guessable.
    const id = idFrom(`${order.id} ${handle}`, 'sb_')
    const data = { vendor: vendor.name, handle, ends }
    const { runtime } = vendor
    return {
      result: {
        sandbox_id: id,
        created: now,
        ends,
        config: { image, timeout, cpu, memory, gpu: gpu ?? null },
        ...(runtime !== undefined && { runtime }),
      },
      until,
      recordsToStore: () => [SANDBOX.stored({ id, data, expiresAt: ends + REMEMBERED_MS })],
    }
  },

  async isStillValid(made, { vendors: { sandbox }, records, now, signal }) {
    const record = await SANDBOX.get(records, (made as { readonly sandbox_id: string }).sandbox_id, now)
    if (!sandbox || record?.data.vendor !== sandbox.name) return false
    return (await sandbox.status(record.data.handle, { signal })).kind === 'running'
  },

  show({ made }) {
    const { created, ends, sandbox_id, config, ...rest } = made as {
      readonly created: number
      readonly ends: number
      readonly sandbox_id: string
      readonly config: Json
      readonly runtime?: string
    }
    return {
      sandbox_id,
      status: 'running',
      created_at: new Date(created).toISOString(),
      expires_at: new Date(ends).toISOString(),
      config,
      ...rest,
    }
  },
})

const example = { sandbox_id: 'sb_0123456789abcdef0123456789abcdef' }
/** Shared by the endpoints that use an existing sandbox. */
const existingSandbox = {
  ...shared,
  errors: ['NOT_FOUND', 'RATE_LIMITED', 'UPSTREAM_FAILED', 'UPSTREAM_TIMEOUT'],
  isAvailable: (_input: unknown, { vendors }: Offering) => vendors.sandbox !== undefined,
  price: (_input: unknown, { prices }: Context): Price => ({
    amount: flatPrice(PER_QUESTION, prices),
    maxTimeoutSeconds: 300,
    publicPrice: {},
  }),
  show: ({ made }: { readonly made: Json }) => made as Record<string, Json>,
} as const

const execInput = Type.Object({
  sandbox_id: sandboxId,
  command: Type.Array(Type.String({ maxLength: 2_000 }), {
    minItems: 1,
    maxItems: 32,
    description: 'A program and its arguments, such as ["python", "-c", "print(1)"]. No shell reads it.',
  }),
  timeout: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 60, default: 30, description: 'Seconds until the command is ended.' }),
  ),
})
const exec = paid({
  ...existingSandbox,
  ...at('exec'),
  summary: 'Run a command in a sandbox',
  description:
    'Waits for the command to end. It is paid for whatever its returncode is; 124 says that its time was over, 127 that there is no such program.',
  input: execInput,
  output: Type.Object({
    sandbox_id: Type.String(),
    stdout: Type.String(),
    stderr: Type.String(),
    returncode: Type.Integer(),
  }),
  example: { ...example, command: ['python', '-c', 'print("hello")'], timeout: 30 },

  check(given) {
    checkId(given)
    if (given.command.some((word) => word.includes('\0'))) throw refused('command', 'must not hold a NUL character')
    if (given.command[0] === '') throw refused('command.0', 'must name a program, got ""')
    return given
  },

  async run(order) {
    const { sandbox_id, command, timeout = 30 } = order.input as Static<typeof execInput>
    const { vendor, handle, isOver } = await sandboxOfPayer(order, sandbox_id)
    const outcome = isOver
      ? undefined
      : await withTimeout(order, timeout + EXTRA_SECONDS, (signal) =>
          vendor.exec(handle, { command, seconds: timeout }, { signal }),
        )
    if (outcome) return { result: { sandbox_id, ...outcome } }
    throw new ApiError('NOT_FOUND', {
      message: 'This sandbox has ended. Nothing was charged; create another.',
      fields: { sandbox_id, status: 'terminated' },
    })
  },
})

const idInput = Type.Object({ sandbox_id: sandboxId })
const status = paid({
  ...existingSandbox,
  ...at('status'),
  summary: 'Get the status of a sandbox',
  description: 'Whether it still runs, and how it ended where that is known.',
  input: idInput,
  output: Type.Object({
    sandbox_id: Type.String(),
    status: Type.Union([Type.Literal('running'), Type.Literal('terminated')]),
    returncode,
  }),
  example,
  check: checkId,

  async run(order) {
    const { sandbox_id } = order.input as Static<typeof idInput>
    const { vendor, handle, isOver } = await sandboxOfPayer(order, sandbox_id)
    const state = isOver
      ? ({ kind: 'ended', returncode: null } as const)
      : await withTimeout(order, QUESTION_SECONDS, (signal) => vendor.status(handle, { signal }))
    return {
      result: {
        sandbox_id,
        status: state.kind === 'running' ? 'running' : 'terminated',
        returncode: state.kind === 'running' ? null : state.returncode,
      },
    }
  },
})

const terminate = paid({
  ...existingSandbox,
  ...at('terminate'),
  summary: 'End a sandbox',
  description: 'Ends it with all that is in it. One that has ended before stays so.',
  input: idInput,
  output: Type.Object({ sandbox_id: Type.String(), status: Type.Literal('terminated') }),
  example,
  check: checkId,

  async run(order) {
    const { sandbox_id } = order.input as Static<typeof idInput>
    const { vendor, handle, isOver } = await sandboxOfPayer(order, sandbox_id)
    if (!isOver) await withTimeout(order, QUESTION_SECONDS, (signal) => vendor.terminate(handle, { signal }))
    return { result: { sandbox_id, status: 'terminated' } }
  },
})

export const sandbox = [create, exec, status, terminate]

// ── orders ──────────────────────────────────────────────────────────────────────────────────────────────────────────

function checkOrder(given: Static<typeof createInput>): Static<typeof createInput> {
  const { cpu, memory, gpu } = orderOf(given)
  const size = gpu === undefined ? 'plain' : 'gpu'
  const without = size === 'plain' ? ' without a gpu' : ''
  if (cpu > MAX_CORES[size]) throw refused('cpu', `must be at most ${MAX_CORES[size]}${without}, got ${quoted(cpu)}`)
  if (memory > MAX_MEMORY[size])
    throw refused('memory', `must be at most ${MAX_MEMORY[size]}${without}, got ${quoted(memory)}`)
  return given
}

function orderOf({
  image = IMAGE,
  timeout = SHORT_SECONDS,
  cpu = 1,
  memory = 512,
  gpu,
}: Static<typeof createInput>): SandboxOrder {
  return { image, timeout, cpu, memory, ...(gpu && { gpu: gpu as Gpu }) }
}

function priceOf({ timeout, gpu }: SandboxOrder, { prices = STANDARD_PRICES }: Context): Price {
  const rate = gpu ? gpuRates[gpu] : plainRate
  const amount = sandboxPrice(rate, timeout, prices)
  if (timeout <= SHORT_SECONDS) return { amount, maxTimeoutSeconds: 300, publicPrice: { model: 'flat' } }
  return {
    amount,
    maxTimeoutSeconds: 300,
    rates: { hourly_rate_usd: dollars(rate.hourly), transaction_fee: prices.fee },
    publicPrice: {
      model: 'hourly',
      duration_hours: timeout / 3600,
      refund_policy: REFUND_POLICY,
    },
  }
}

function checkId<Given extends { readonly sandbox_id: string }>(given: Given): Given {
  if (ID.test(given.sandbox_id)) return given
  throw refused(
    'sandbox_id',
    `must be the sandbox_id of a create, sb_ and 32 hexadecimal digits; got ${quoted(given.sandbox_id)}`,
  )
}

function withTimeout<T>(
  { clock }: Order<unknown>,
  seconds: number,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return within(clock, seconds * 1000, work).catch((error: unknown) => {
    if ((error as Error).name !== 'TimeoutError') throw error
    throw new ApiError('UPSTREAM_TIMEOUT', {
      message: `The sandbox did not answer within ${seconds} seconds. Nothing was charged.`,
    })
  })
}
