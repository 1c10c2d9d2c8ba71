/**
 * The documents for language models: `/llms.txt`, a page that leads on, and `/llms-full.txt`, everything that a program
 * needs to buy. Both are Markdown (llmstxt.org), and both are derived from what the gateway sells.
 */
import { familyOf } from '../ports/chain_family.ts'
import { DESCRIPTION, type GatewayDescription } from './document_input.ts'
import type { Endpoint } from '../endpoint/mod.ts'
import type { Priced } from '../endpoint/gateway_info.ts'
import { priceList } from './price_list.ts'
import { EXAMPLE_ORIGIN, SIGNING_GUIDE } from './signing_guide.ts'

/** JSON of the OpenAPI document, which has been made from typed parts. */
type Fields = Readonly<Record<string, any>>

const HOW_TO_PAY = [
  'Send the request without a payment. The answer is 402: `accepts` lists offers, and `PAYMENT-REQUIRED` has them in Base64.',
  'Sign one offer: on EVM networks a USDC authorization (EIP-3009), on Solana a transfer. Signing costs no gas.',
  'Send the same request again with the payment in the header `PAYMENT-SIGNATURE`. `PAYMENT-RESPONSE` has the receipt.',
  'A 202 has a `poll_url`: GET it as it is, every 2 to 5 seconds, with the same header, until the result is there.',
  'If an answer is lost, send the same request with the same payment: it is charged once. A failure is not charged.',
] as const

/** `$0.0168 to $1.58` is `0.016750 to 1.576000 USDC`, exact. */
function priceText(price: Priced['price']): string {
  if (price === 'free') return 'free'
  return price.mode === 'fixed' ? `${price.amount} USDC` : `${price.min} to ${price.max} USDC`
}

/** The short document, at this origin. */
export function llmsText(endpoints: readonly Endpoint[], origin: string, facts: GatewayDescription): string {
  const listed = priceList(endpoints, facts)
  const sold = listed.filter(({ price }) => price !== 'free')
  const tags = [...new Set(sold.map(({ tag }) => tag))]
  const lineOf = ({ methods, path, summary, price }: Priced) =>
    `- [${methods[0]} ${path}](${origin}${path.slice(facts.basePath.length)}): ${summary}. ${priceText(price)}.`
  return [
    '# Farebox',
    `> ${DESCRIPTION}`,
    `Paid in USDC on ${facts.label}. ${HOW_TO_PAY.join(' ')}`,
    ...tags.map((tag) => [`## ${titled(tag)}`, ...sold.filter((each) => each.tag === tag).map(lineOf)].join('\n')),
    [
      '## Documents',
      `- [Everything in one text](${origin}/llms-full.txt): every route, its fields, its price and its errors`,
      `- [OpenAPI 3.1](${origin}/openapi.json): the same for programs`,
      `- [Models](${origin}/api/v1/models): every model with its rates`,
      `- [Prices](${origin}/api/pricing): what one call of each route costs`,
    ].join('\n'),
    ['## Optional', `- [x402 services](${origin}/.well-known/x402): for indexers`].join('\n'),
  ].join('\n\n')
}

/** The long document, from the OpenAPI document of the gateway. */
export function llmsFullText(openapi: Fields, facts: GatewayDescription, origin: string): string {
  const operations = Object.entries<Fields>(openapi.paths).flatMap(([path, item]) =>
    Object.entries<Fields>(item)
      .filter(([, operation]) => operation['x-quote-of'] === undefined)
      .map(([method, operation]) => operationText(openapi, { path, method: method.toUpperCase(), operation })),
  )
  return [
    '# Farebox',
    `> ${DESCRIPTION}`,
    `Paid in USDC on ${facts.label}.`,
    ['## How to pay', ...HOW_TO_PAY.map((step, index) => `${index + 1}. ${step}`)].join('\n'),
    ...(isSignedByHand(facts) ? ['## How to sign', SIGNING_GUIDE.replaceAll(EXAMPLE_ORIGIN, origin)] : []),
    '## Routes',
    ...operations,
    errorsText(openapi),
  ].join('\n\n')
}

/** Whether there is an offer of `exact` that a plain EIP-712 signature pays. */
const isSignedByHand = ({ terms, offering: { families = [] } }: GatewayDescription): boolean =>
  terms().some(({ scheme, network }) => scheme === 'exact' && familyOf(families, network)?.signsTransfers)

type Operation = { readonly path: string; readonly method: string; readonly operation: Fields }

function operationText(openapi: Fields, { path, method, operation }: Operation): string {
  const price = operation['x-payment-info']?.price as Priced['price'] | undefined
  const parameters = (operation.parameters ?? []).map((each: Fields) => resolved(openapi, each))
  const content = operation.requestBody?.content?.['application/json'] as Fields | undefined
  const body = content && resolved(openapi, content.schema ?? {})
  const fields = [
    ...parameters
      .filter((each: Fields) => each.in !== 'header')
      .map((each: Fields) =>
        fieldText(each.name, each.schema ?? {}, { isRequired: each.required, where: each.in, ...each }),
      ),
    ...Object.entries<Fields>(body?.properties ?? {}).map(([name, schema]) =>
      fieldText(name, resolved(openapi, schema), {
        isRequired: body?.required?.includes(name) ?? false,
        where: 'body',
      }),
    ),
  ]
  const statuses = Object.keys(operation.responses ?? {}).join(', ')
  return [
    `### ${method} ${path}`,
    [`${operation.summary}.`, operation.description].filter(Boolean).join(' '),
    `Price: ${price ? priceText(price) : 'free'}. Answers: ${statuses}.`,
    ...(fields.length > 0 ? [fields.join('\n')] : []),
    ...(content?.example !== undefined ? [`\`\`\`json\n${JSON.stringify(content.example)}\n\`\`\``] : []),
  ].join('\n\n')
}

type Field = { readonly isRequired?: boolean; readonly where: string; readonly description?: string }

/** `- model (body, text, required): Id of an image model.` */
function fieldText(name: string, schema: Fields, { isRequired = false, where, description }: Field): string {
  const values = (schema.enum ??
    schema.anyOf?.map((each: Fields) => each.const).filter((each: unknown) => each !== undefined)) as
    | readonly unknown[]
    | undefined
  const kind = values?.length ? values.map((value) => JSON.stringify(value)).join(' or ') : (schema.type ?? 'any')
  const bounds = [
    schema.minimum !== undefined && `at least ${schema.minimum}`,
    schema.maximum !== undefined && `at most ${schema.maximum}`,
    schema.maxLength !== undefined && `at most ${schema.maxLength} characters`,
    schema.default !== undefined && `default ${JSON.stringify(schema.default)}`,
  ].filter(Boolean)
  const marks = [where, kind, isRequired ? 'required' : 'optional', ...bounds].join(', ')
  const words = schema.description ?? description
  return `- ${name} (${marks})${words ? `: ${words}` : ''}`
}

/** Writes the possible meanings of each status, one line each. */
function errorsText(openapi: Fields): string {
  const meanings = new Map<string, Set<string>>()
  for (const [name, { description }] of Object.entries<Fields>(openapi.components?.responses ?? {})) {
    const [, status] = /^plain_(\d{3})/.exec(name) ?? []
    if (status === undefined) continue
    const known = meanings.get(status) ?? new Set()
    for (const meaning of String(description).split(/[;.]/)) if (meaning.trim()) known.add(meaning.trim())
    meanings.set(status, known)
  }
  const lines = [...meanings]
    .toSorted(([a], [b]) => Number(a) - Number(b))
    .map(([status, known]) => `- ${status}: ${[...known].filter((each) => !/charged/.test(each)).join('; ')}`)
  const intro = 'An error says which field is wrong and what is allowed. Nothing is charged for any of these.'
  return ['## Errors', intro, '', ...lines].join('\n')
}

function resolved(openapi: Fields, part: Fields): Fields {
  const reference = part.$ref as string | undefined
  if (reference === undefined) return part
  return reference
    .slice('#/'.length)
    .split('/')
    .reduce((inside: Fields, name) => (inside[name] as Fields | undefined) ?? {}, openapi)
}

const titled = (tag: string): string => tag.charAt(0).toUpperCase() + tag.slice(1)
