/** The rules of a model: parameters, efforts, tiers and live search (contract 6.31 to 6.36). */
import { type ChatRow, type Effort, EFFORTS } from '../../ports/vendors/chat.ts'
import { refused } from '../../http/request_body.ts'
import { type Fields, type Json } from '../../lib/json.ts'
import { quoted } from '../../lib/text.ts'
import { invalidParameter } from './request.ts'

type RuleOptions = { readonly isLenient?: boolean; readonly byResponses?: boolean }
type RuledRequest = { readonly body: Fields; readonly effort: Effort | undefined }

/**
 * Applies the model's rules: strips parameters, maps the effort, turns forced tools into auto. Throws INVALID_PARAMETER
 * for parameters that the model refuses; with `isLenient` they are stripped instead, because the caller did not choose
 * this model. `byResponses` allows the efforts of the responses API.
 */
export function applyModelRules(
  body: Fields,
  row: ChatRow,
  { isLenient = false, byResponses = false }: RuleOptions = {},
): RuledRequest {
  const params: Record<string, Json> = { ...body }
  for (const name of row.strips ?? []) delete params[name]
  for (const name of row.refuses ?? []) {
    const given = params[name]
    if (given === undefined || given === null || (name === 'temperature' && given === 1)) continue
    if (!isLenient)
      throw invalidParameter(
        name,
        `${row.id} does not accept it${name === 'temperature' ? '; only 1 is allowed' : ''}.`,
      )
    delete params[name]
  }
  // Whether a vendor stores the answer is the operator's choice.
  delete params.store
  delete params.stream_options
  ruleTier(params, isLenient)
  if (!row.promptCache) delete params.prompt_cache
  if (row.noForcedTools && isForced(params.tool_choice)) params.tool_choice = 'auto'
  ruleSearch(params, row, isLenient)
  const effort = ruleEffort(params, row, { isLenient, byResponses })
  if (effort === undefined) delete params.reasoning_effort
  if (effort !== undefined) params.reasoning_effort = effort
  return { body: params, effort }
}

const isForced = (choice: Json | undefined): boolean =>
  choice === 'required' || (typeof choice === 'object' && choice !== null)

export const hasFunctions = ({ tools }: Fields): boolean =>
  Array.isArray(tools) && tools.some((tool) => (tool as Fields).type === 'function')

function ruleEffort(body: Fields, row: ChatRow, { isLenient, byResponses }: Required<RuleOptions>): Effort | undefined {
  const requested = body.reasoning_effort
  const isKnown = EFFORTS.includes(requested as Effort)
  if (requested !== undefined && requested !== null && !isKnown) {
    throw invalidParameter('reasoning_effort', `must be one of ${EFFORTS.join(', ')}, got ${quoted(requested)}.`)
  }
  const requestedEffort = isKnown ? (requested as Effort) : undefined
  const rules = row.effort
  if (!rules) {
    if (requestedEffort !== 'max') return requestedEffort
    if (isLenient) return 'xhigh'
    throw invalidParameter(
      'reasoning_effort',
      `${row.id} accepts none, minimal, low, medium, high or xhigh, got "max".`,
    )
  }
  const withTools = hasFunctions(body)
  if (withTools && rules.forcedWithTools) return rules.forcedWithTools
  const sentEfforts = ((withTools || byResponses) && rules.withTools) || rules.sent
  if (requestedEffort === undefined) return withTools ? rules.defaultWithTools : undefined
  const effort = sentEfforts[requestedEffort]
  if (effort !== undefined || isLenient) return effort
  throw invalidParameter(
    'reasoning_effort',
    `${row.id} accepts ${Object.keys(sentEfforts).join(', ')}, got ${quoted(requestedEffort)}.`,
  )
}

/** Refuses tiers that cost more than the quote. */
function ruleTier(body: Record<string, Json>, isLenient: boolean): void {
  const tier = body.service_tier
  if (tier === undefined || tier === null || tier === 'auto' || tier === 'default' || tier === 'flex') return
  if (!isLenient) throw invalidParameter('service_tier', `must be auto, default or flex, got ${quoted(tier)}.`)
  delete body.service_tier
}

function ruleSearch(body: Record<string, Json>, row: ChatRow, isLenient: boolean): void {
  const requested = body.search_parameters
  if (requested === undefined || requested === null) return void delete body.search_parameters
  if (typeof requested !== 'object' || Array.isArray(requested))
    throw refused('search_parameters', `must be an object, got ${quoted(requested)}`)
  const isOff = (requested as Fields).mode === 'off'
  if (isOff) delete body.search_parameters
  if (isOff || row.liveSearch) return
  if (!isLenient)
    throw invalidParameter(
      'search_parameters',
      `${row.id} does not support live search; choose a vendor-c model, or set mode to off.`,
    )
  delete body.search_parameters
}
