/** Finds the problems of a gateway's setup before it is built. */
import type { Endpoint } from '../endpoint/mod.ts'
import type { Ports } from '../ports/mod.ts'

/** Parts of a setup that are checked here. */
type Setup = {
  readonly ports?: Partial<Ports>
  readonly name?: string
  readonly label?: string
  readonly basePath?: string
  readonly endpoints?: readonly Endpoint[]
  readonly hidden?: readonly string[]
} & { readonly [Size in (typeof SIZES)[number]]?: number }

/**
 * The mistakes of a setup, all of them, each beginning with the name of its setting.
 *
 * @example
 * const problems = await createGateway({ ports, maxBody: -1 }).catch((error: SetupError) => error.problems)
 */
export class SetupError extends Error {
  override readonly name = 'SetupError'
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(`The gateway cannot be built:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`)
    this.problems = problems
  }
}

const PORTS = ['chain', 'storage', 'objects', 'clock', 'log', 'random', 'vendors', 'countTokens', 'background'] as const
const SIZES = ['inlineMs', 'maxBody', 'maxMedia', 'maxUpload', 'maxBodies', 'unpaidCharacters'] as const

/** The options of a gateway by name. A name that is misspelt would be ignored, and the gateway built without it. */
const OPTIONS = new Set([
  'ports',
  'name',
  'label',
  'version',
  'contact',
  'catalog',
  'endpoints',
  'timeouts',
  'retention',
  'workerId',
  'inlineMs',
  'maxBody',
  'maxMedia',
  'maxUpload',
  'maxBodies',
  'onBodiesFreed',
  'networks',
  'hidden',
  'unverifiable',
  'freeTier',
  'unpaidCharacters',
  'freeToOrigin',
  'newWallet',
  'newWallets',
  'allowlists',
  'featureFlags',
  'pollKeys',
  'signer',
  'mpp',
  'operatorToken',
  'basePath',
  'controls',
  'markup',
  'bareV1',
  'changes',
])

/** Verbs of a storage that are used at once. They are checked because plain JavaScript may pass anything. */
const VERBS = ['openCall', 'getCall', 'getRecord'] as const

/** Returns the problems of a setup by itself. Types find most of them; plain JavaScript has no types. */
export function setupProblems(setup: Setup, all: readonly Endpoint[]): readonly string[] {
  if (typeof setup !== 'object' || setup === null) return ['setup: is missing; give createGateway({ ports })']
  const { ports, basePath = '', endpoints = all, hidden = [], name, label } = setup
  const isText = (value: unknown) => value === undefined || (typeof value === 'string' && value !== '')
  return [
    ...Object.keys(setup).flatMap((option) => (OPTIONS.has(option) ? [] : [`${option}: there is no such option`])),
    ...PORTS.flatMap((port) =>
      (ports?.[port] ?? null) === null ? [`ports.${port}: is missing; see localPorts()`] : [],
    ),
    ...storageProblems(ports?.storage),
    ...SIZES.flatMap((size) => {
      const value = setup[size]
      const isFine = value === undefined || (Number.isSafeInteger(value) && value >= 0)
      return isFine ? [] : [`${size}: must be a whole number of at least 0; it is ${String(value)}`]
    }),
    ...(isText(name) ? [] : [`name: must be a text that is not empty; it is ${JSON.stringify(name)}`]),
    ...(isText(label) ? [] : [`label: must be a text that is not empty; it is ${JSON.stringify(label)}`]),
    ...(BASE_PATH.test(basePath) ? [] : [`basePath: must be like /ai, without a slash at its end; it is ${basePath}`]),
    ...hidden.flatMap((hiding) =>
      endpoints.some(hides(hiding))
        ? []
        : [`hidden: there is no endpoint ${hiding}; endpoints are named like images.generations`],
    ),
  ]
}

function storageProblems(storage: Partial<Ports['storage']> | null | undefined): readonly string[] {
  const lacking = storage ? VERBS.filter((verb) => typeof storage[verb] !== 'function') : []
  return lacking.length === 0
    ? []
    : [`ports.storage: is no storage, it has no ${lacking.join(', ')}; see openStorage()`]
}

const BASE_PATH = /^(?:\/[A-Za-z0-9._~-]+)*$/

/** Whether this name in `hidden` hides an endpoint. */
export const hides = (name: string) => (endpoint: Endpoint) =>
  endpoint.name === name || endpoint.name.startsWith(`${name}.`)
