/** What is wrong with the setup of a gateway, before it is built. */
import type { Endpoint } from '../endpoint/mod.ts'
import type { Ports } from '../ports/mod.ts'

/** What is checked here of a setup. */
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

/** What is wrong with a setup by itself. Types say most of it; plain JavaScript has none. */
export function setupProblems(setup: Setup, all: readonly Endpoint[]): readonly string[] {
  const { ports, basePath = '', endpoints = all, hidden = [], name, label } = setup
  const isText = (value: unknown) => value === undefined || (typeof value === 'string' && value !== '')
  return [
    ...PORTS.flatMap((port) => (ports?.[port] === undefined ? [`ports.${port}: is missing; see localPorts()`] : [])),
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

const BASE_PATH = /^(?:\/[A-Za-z0-9._~-]+)*$/

/** Whether this name in `hidden` hides an endpoint. */
export const hides = (name: string) => (endpoint: Endpoint) =>
  endpoint.name === name || endpoint.name.startsWith(`${name}.`)
