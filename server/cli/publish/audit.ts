/** Checks a gateway as indexers of x402 do: its documents, and the 402 of each paid operation. */
import { fieldsOf, isFields, objectsOf } from '../../../core/lib/mod.ts'
import { decodeObject } from '../../../core/x402/mod.ts'

export type Finding = { readonly level: 'ok' | 'note' | 'wrong'; readonly subject: string; readonly message: string }

export type Audit = {
  readonly findings: readonly Finding[]
  /** Paid operations that answered a 402. */
  readonly paid: number
  /** CAIP-2 networks of the offers. */
  readonly networks: readonly string[]
  /** Whether a 402 has a challenge of MPP. */
  readonly hasMpp: boolean
}

/** The answer to one request; `body` is read up to a limit. */
export type Answer = { readonly status: number; readonly headers: Headers; readonly body: string }
export type Ask = (url: string, method?: string) => Promise<Answer>

/** Longest guidance and highest number of operations without a warning of @agentcash/discovery. */
const MAX_GUIDANCE = 4_000
const MANY_OPERATIONS = 40
/** In bytes: nginx forwards no longer status line and headers by default. */
const MAX_HEAD = 4_096
const CAIP_2 = /^[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}$/

type Operation = { readonly method: string; readonly path: string; readonly fields: Readonly<Record<string, unknown>> }

/** Asks everything once, in order. Throws what `ask` throws. */
export async function audit(origin: string, ask: Ask): Promise<Audit> {
  const document = await ask(`${origin}/openapi.json`)
  const openapi = document.status === 200 ? parsed(document.body) : undefined
  if (!openapi) {
    const message = `GET /openapi.json answers ${document.status}${document.status === 200 ? ' with no JSON' : ''}; indexers find every route there`
    return { findings: [{ level: 'wrong', subject: 'openapi.json', message }], paid: 0, networks: [], hasMpp: false }
  }
  const operations = operationsIn(openapi)
  const findings = [...documentFindings(openapi, operations), ...(await fileFindings(origin, ask))]
  const networks = new Set<string>()
  const failed = new Map<string, string[]>()
  let paid = 0
  let hasMpp = false
  for (const { method, path, fields } of operations.filter(isPaid)) {
    const answer = await ask(origin + path, method)
    if (answer.status === 402) paid++
    if (/(^|,)\s*Payment /.test(answer.headers.get('www-authenticate') ?? '')) hasMpp = true
    const demand = decodeObject(answer.headers.get('payment-required') ?? '')
    for (const { network } of objectsOf(demand?.accepts)) if (typeof network === 'string') networks.add(network)
    for (const problem of [...priceProblems(fields), ...challengeProblems(answer, demand)])
      failed.set(problem, [...(failed.get(problem) ?? []), `${method} ${path}`])
  }
  for (const [problem, [first = '', ...others]] of failed)
    findings.push({
      level: 'wrong',
      subject: first + (others.length > 0 ? ` and ${others.length} more` : ''),
      message: problem,
    })
  if (failed.size === 0 && paid > 0)
    findings.push({ level: 'ok', subject: '402', message: `${paid} paid operations answer as indexers want it` })
  if (paid === 0)
    findings.push({ level: 'wrong', subject: '402', message: 'no operation is paid: there is nothing to list' })
  return { findings, paid, networks: [...networks], hasMpp }
}

function operationsIn(openapi: Readonly<Record<string, unknown>>): readonly Operation[] {
  const methods = new Set(['get', 'post', 'put', 'patch', 'delete'])
  return Object.entries(fieldsOf(openapi.paths)).flatMap(([path, item]) =>
    Object.entries(fieldsOf(item))
      .filter(([method]) => methods.has(method))
      .map(([method, fields]) => ({ path, method: method.toUpperCase(), fields: fieldsOf(fields) })),
  )
}

const isPaid = ({ fields }: Operation): boolean => isFields(fields['x-payment-info'])

function documentFindings(
  openapi: Readonly<Record<string, unknown>>,
  operations: readonly Operation[],
): readonly Finding[] {
  const findings: Finding[] = []
  const subject = 'openapi.json'
  const info = fieldsOf(openapi.info)
  const { url, email } = fieldsOf(info.contact)
  if (!String(openapi.openapi).startsWith('3.'))
    findings.push({ level: 'wrong', subject, message: `openapi must be 3.x, got ${JSON.stringify(openapi.openapi)}` })
  if (!url && !email) findings.push({ level: 'note', subject, message: 'info.contact is empty; set contact' })
  const guidance = info['x-guidance']
  if (typeof guidance !== 'string' || guidance === '')
    findings.push({ level: 'note', subject, message: 'info.x-guidance is missing' })
  else if (guidance.length > MAX_GUIDANCE)
    findings.push({ level: 'wrong', subject, message: `info.x-guidance is longer than ${MAX_GUIDANCE} characters` })
  const untold = operations.filter((each) => !isPaid(each) && each.fields.security === undefined)
  if (untold.length > 0)
    findings.push({
      level: 'note',
      subject,
      message: `${untold.length} free operations have no security: []; scanners probe them as if they were paid`,
    })
  if (operations.length > MANY_OPERATIONS)
    findings.push({
      level: 'note',
      subject,
      message: `${operations.length} operations; beyond ${MANY_OPERATIONS}, @agentcash/discovery warns of the tokens they take. hidden and catalog show fewer`,
    })
  return findings
}

async function fileFindings(origin: string, ask: Ask): Promise<readonly Finding[]> {
  const icon = await ask(`${origin}/favicon.ico`)
  const isIcon = icon.status === 200 && icon.headers.get('content-type')?.startsWith('image/') === true
  return isIcon
    ? []
    : [{ level: 'note', subject: 'favicon.ico', message: 'there is no picture beside the name in a list' }]
}

function priceProblems(fields: Readonly<Record<string, unknown>>): readonly string[] {
  const { price, protocols } = fieldsOf(fields['x-payment-info'])
  const { mode, amount, min, max } = fieldsOf(price)
  const isPriced = mode === 'fixed' ? typeof amount === 'string' : mode === 'dynamic' && (min ?? max) !== undefined
  return [
    ...(isPriced ? [] : ['x-payment-info.price must have mode fixed with an amount, or dynamic with min or max']),
    ...(objectsOf(protocols).some((each) => isFields(each.x402)) ? [] : ['x-payment-info.protocols must have x402']),
  ]
}

/** Reasons for which an indexer skips a route. `demand` is the decoded PAYMENT-REQUIRED. */
function challengeProblems(
  { status, headers }: Answer,
  demand: Readonly<Record<string, unknown>> | undefined,
): readonly string[] {
  if (status !== 402) return [`a request without a body or a payment answers ${status}; it must answer 402`]
  if (!demand) return ['PAYMENT-REQUIRED is missing, or is no Base64 of JSON']
  const problems: string[] = []
  if (demand.x402Version !== 2) problems.push('x402Version must be 2')
  if (typeof fieldsOf(demand.resource).url !== 'string') problems.push('resource.url is missing')
  const accepts = objectsOf(demand.accepts)
  if (accepts.length === 0) problems.push('accepts is empty')
  for (const { scheme, network, amount, asset, payTo, maxTimeoutSeconds } of accepts) {
    const isWhole = [scheme, network, amount, asset, payTo].every((each) => typeof each === 'string')
    if (!isWhole || typeof maxTimeoutSeconds !== 'number') problems.push('an entry of accepts lacks a member')
    else if (!CAIP_2.test(String(network))) problems.push(`network must be CAIP-2, got ${JSON.stringify(network)}`)
  }
  const { input, output } = fieldsOf(fieldsOf(fieldsOf(fieldsOf(demand.extensions).bazaar).schema).properties)
  const { body, queryParams } = fieldsOf(fieldsOf(input).properties)
  if (!isFields(body ?? queryParams))
    problems.push('PAYMENT-REQUIRED has no input in extensions.bazaar.schema, and indexers skip what they cannot call')
  if (!isFields(fieldsOf(fieldsOf(output).properties).example))
    problems.push('PAYMENT-REQUIRED has no output in extensions.bazaar.schema')
  if (headSize(headers) > MAX_HEAD)
    problems.push(`the headers of the 402 are longer than ${MAX_HEAD} bytes, which nginx forwards by default`)
  return problems
}

const headSize = (headers: Headers): number =>
  [...headers].reduce(
    (sum, [name, value]) => sum + name.length + value.length + 4,
    'HTTP/1.1 402 Payment Required\r\n\r\n'.length,
  )

function parsed(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isFields(value) ? value : undefined
  } catch {
    return undefined
  }
}
