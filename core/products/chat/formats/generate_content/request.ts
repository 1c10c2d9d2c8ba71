/**
 * Translates requests between `chat` and Gemini's generateContent. Sources: types of @google/genai 3.1.0; Google's
 * "OpenAI compatibility" and "Thought signatures" pages; decision 75. Neither direction throws. Members that the other
 * format does not have are dropped, since Gemini refuses unknown ones.
 */
import { type Json, type Fields, fieldsOf, given, isFields, listOf, numberOf, textOf } from '../../../../lib/json.ts'
import {
  callPart,
  camel,
  contentText,
  dataUriParts,
  jsonSchema,
  jsonText,
  visibleText,
  signatureOf,
  withSignature,
  texts,
  toolCall,
} from './parts.ts'
import { tryJson } from '../sse.ts'

const MAX_STOPS = 5
const TYPES: ReadonlyMap<string, string> = new Map([
  ['png', 'image/png'],
  ['webp', 'image/webp'],
  ['gif', 'image/gif'],
  ['heic', 'image/heic'],
  ['heif', 'image/heif'],
  ['avif', 'image/avif'],
  ['bmp', 'image/bmp'],
  ['pdf', 'application/pdf'],
])
const THINKING_LEVELS: ReadonlyMap<string, string> = new Map([
  ['minimal', 'minimal'],
  ['low', 'low'],
  ['medium', 'medium'],
  ['high', 'high'],
  ['xhigh', 'high'],
  ['max', 'high'],
])

// ── chat to Gemini ──────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Converts a chat request for a Gemini upstream. The caller's `safetySettings` and the members of `generationConfig`
 * that do not change the price are forwarded; members of chat win over them. `maxOutputTokens` and `candidateCount`,
 * which set the price, come from chat only.
 */
export function generateContentFromChat(body: Fields): Fields {
  const messages = listOf(body.messages).map(fieldsOf)
  const systems = messages.filter(isSystem).flatMap(({ content }) => mediaParts(content))
  const declarations = listOf(body.tools).flatMap(declaration)
  const settings = generationConfig(body)
  return given({
    systemInstruction: systems.length > 0 ? { parts: systems } : undefined,
    contents: turns(messages, needsSignatures(textOf(body.model))),
    tools: declarations.length > 0 ? [{ functionDeclarations: declarations }] : undefined,
    toolConfig: declarations.length > 0 ? toolConfig(body.tool_choice) : undefined,
    generationConfig: Object.keys(settings).length > 0 ? settings : undefined,
    safetySettings: Array.isArray(body.safetySettings) ? body.safetySettings : undefined,
  })
}

const isSystem = ({ role }: Fields) => role === 'system' || role === 'developer'

/**
 * From generation 3 on, Gemini refuses a turn whose calls have no signature (400), and most chat clients drop it. This
 * placeholder from Google's "Thought signatures" page replaces it. Older generations need none.
 */
const NO_SIGNATURE = 'skip_thought_signature_validator'
const needsSignatures = (model: string) => !/gemini-[12]\b/.test(model)

function turns(messages: readonly Fields[], isStrict: boolean): Fields[] {
  const names = new Map<string, string>()
  const contents: { role: string; parts: Fields[] }[] = []
  for (const message of messages) {
    if (isSystem(message)) continue
    const isModel = message.role === 'assistant'
    if (isModel)
      for (const call of listOf(message.tool_calls).map(fieldsOf))
        names.set(textOf(call.id), textOf(fieldsOf(call.function).name))
    const role = isModel ? 'model' : 'user'
    const parts = isModel ? modelParts(message, isStrict) : userParts(message, names)
    const last = contents.at(-1)
    if (last?.role === role) for (const part of parts) last.parts.push(part)
    else if (parts.length > 0) contents.push({ role, parts })
  }
  return contents
}

function userParts(message: Fields, names: ReadonlyMap<string, string>): Fields[] {
  if (message.role !== 'tool' && message.role !== 'function') return mediaParts(message.content)
  const id = textOf(message.tool_call_id)
  const text = contentText(message.content)
  const name = names.get(id) || textOf(message.name) || id
  const functionResponse = given({ id: id || undefined, name, response: tryJson(text) ?? { result: text } })
  return [{ functionResponse }, ...mediaParts(message.content).filter((part) => part.text === undefined)]
}

function modelParts(message: Fields, isStrict: boolean): Fields[] {
  const signature = signatureOf(message)
  const thought = textOf(message.reasoning_content)
  const parts = mediaParts(message.content)
  const visible: Fields[] = signature !== '' && parts.length === 0 ? [{ text: '' }] : parts
  const signedLast = visible.map((part, index) =>
    signature !== '' && index === visible.length - 1 ? { ...part, thoughtSignature: signature } : part,
  )
  const legacy = isFields(message.function_call) ? [{ function: message.function_call }] : []
  const calls = [...listOf(message.tool_calls).map(fieldsOf), ...legacy].map(callPart)
  const isUnsigned = isStrict && !calls.some(({ thoughtSignature }) => thoughtSignature !== undefined)
  const thoughts = thought === '' ? [] : [{ text: thought, thought: true }]
  return [
    ...thoughts,
    ...signedLast,
    ...calls.map((call, index) => (isUnsigned && index === 0 ? { ...call, thoughtSignature: NO_SIGNATURE } : call)),
  ]
}

/** Text, images, audio and files. Empty text is dropped, since Gemini may refuse it. */
function mediaParts(content: Json | undefined): Fields[] {
  if (typeof content === 'string') return content === '' ? [] : [{ text: content }]
  return listOf(content).flatMap((part) => {
    if (typeof part === 'string') return mediaParts(part)
    const { type, ...member } = fieldsOf(part)
    if (type === 'image_url') return mediaPart(urlOf(member.image_url), 'image/jpeg')
    if (type === 'video_url') return mediaPart(urlOf(member.video_url), 'video/mp4')
    if (type === 'file') return filePart(textOf(fieldsOf(member.file).file_data))
    if (type !== 'input_audio') return mediaParts(textOf(member.text) || textOf(member.refusal))
    const { data, format } = fieldsOf(member.input_audio)
    return [{ inlineData: { mimeType: `audio/${textOf(format) || 'wav'}`, data: textOf(data) } }]
  })
}

const urlOf = (value: Json | undefined) => textOf(value) || textOf(fieldsOf(value).url)

/** Files are always inlined: a name such as `files/x` would refer to a file in the operator's account. */
function filePart(data: string): Fields[] {
  return data === '' ? [] : [{ inlineData: dataUriParts(data) ?? { mimeType: 'application/pdf', data } }]
}

function mediaPart(url: string, defaultType: string): Fields[] {
  if (url === '') return []
  const inlineData = dataUriParts(url)
  if (inlineData) return [{ inlineData }]
  const extension = /\.([a-z0-9]{2,4})(?:[?#]|$)/i.exec(url)?.[1]?.toLowerCase() ?? ''
  return [{ fileData: { fileUri: url, mimeType: TYPES.get(extension) ?? defaultType } }]
}

function declaration(tool: Json): Fields[] {
  const { name, description, parameters } = fieldsOf(fieldsOf(tool).function)
  if (textOf(name) === '') return []
  const isSchema = isFields(parameters) && Object.keys(parameters).length > 0
  return [
    given({
      name,
      description: textOf(description) || undefined,
      parametersJsonSchema: isSchema ? parameters : undefined,
    }),
  ]
}

function toolConfig(choice: Json | undefined): Fields | undefined {
  const config = (mode: string, allowed: string[] = []) => {
    const names = allowed.length > 0 ? { allowedFunctionNames: allowed } : {}
    return { functionCallingConfig: { mode, ...names } }
  }
  if (choice === 'auto') return config('AUTO')
  if (choice === 'none') return config('NONE')
  if (choice === 'required') return config('ANY')
  const { type, function: named, allowed_tools: allowed } = fieldsOf(choice)
  const only = textOf(fieldsOf(named).name)
  if (only !== '') return config('ANY', [only])
  if (type !== 'allowed_tools') return undefined
  const names = listOf(fieldsOf(allowed).tools).flatMap(
    (tool) => textOf(fieldsOf(fieldsOf(tool).function).name) || textOf(fieldsOf(tool).name) || [],
  )
  return config(fieldsOf(allowed).mode === 'required' ? 'ANY' : 'VALIDATED', names)
}

/**
 * Members of `generationConfig` that are forwarded. Schemas are not counted in the quote, and other modalities cost
 * more.
 */
const SETTINGS: ReadonlySet<string> = new Set(
  'temperature topP topK stopSequences seed presencePenalty frequencyPenalty responseLogprobs logprobs mediaResolution thinkingConfig responseMimeType'.split(
    ' ',
  ),
)

/** Names of the caller's settings that `generateContentFromChat` drops. */
export function unsupportedSettings({ generationConfig }: Fields): string[] {
  if (generationConfig === undefined) return []
  return Object.keys(camel(generationConfig)).filter(
    (name) => !SETTINGS.has(name) && name !== 'maxOutputTokens' && name !== 'candidateCount',
  )
}

function generationConfig(body: Fields): Fields {
  const callerSettings: Fields = Object.fromEntries(
    Object.entries(camel(body.generationConfig)).filter(([name]) => SETTINGS.has(name)),
  )
  const stops = typeof body.stop === 'string' ? [body.stop] : texts(body.stop)
  const settings = given({
    maxOutputTokens: numberOf(body.max_tokens) ?? numberOf(body.max_completion_tokens),
    temperature: numberOf(body.temperature),
    topP: numberOf(body.top_p),
    topK: numberOf(body.top_k),
    stopSequences: stops.length > 0 ? stops.slice(0, MAX_STOPS) : undefined,
    seed: numberOf(body.seed),
    candidateCount: numberOf(body.n),
    presencePenalty: numberOf(body.presence_penalty),
    frequencyPenalty: numberOf(body.frequency_penalty),
    responseLogprobs: body.logprobs === true ? true : undefined,
    logprobs: body.logprobs === true ? numberOf(body.top_logprobs) : undefined,
  })
  return {
    ...callerSettings,
    ...settings,
    thinkingConfig: thinkingConfig(textOf(body.reasoning_effort), camel(callerSettings.thinkingConfig)),
  }
}

/**
 * An effort replaces the caller's level and budget, since Gemini refuses both together. Thoughts are requested
 * (contract 6.25).
 */
function thinkingConfig(effort: string, { thinkingLevel, thinkingBudget, ...callerSettings }: Fields): Fields {
  if (effort === 'none') return { ...callerSettings, includeThoughts: false, thinkingBudget: 0 }
  const level = THINKING_LEVELS.get(effort)
  return given({
    includeThoughts: true,
    ...callerSettings,
    ...(level ? { thinkingLevel: level } : { thinkingLevel, thinkingBudget }),
  })
}

// ── Gemini to chat ──────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Converts a Gemini request to chat, without `model` and `stream`, which are in its path. Built-in tools are dropped:
 * see `builtInTools`.
 */
export function chatFromGenerateContent(body: Fields): Fields {
  const { systemInstruction, contents, tools, toolConfig: config, generationConfig: settings } = camel(body)
  const system = partsOf(systemInstruction).map(visibleText).join('')
  const functions = listOf(tools).flatMap((tool) => listOf(camel(tool).functionDeclarations).map(toolOf))
  const choice = choiceOf(camel(camel(config).functionCallingConfig))
  return given({
    messages: [...(system === '' ? [] : [{ role: 'system', content: system }]), ...messagesOf(contents)],
    tools: functions.length > 0 ? functions : undefined,
    tool_choice: functions.length > 0 ? choice : undefined,
    ...settingsOf(camel(settings)),
  })
}

/** Names of the tools that Gemini runs itself, such as `googleSearch`. No chat model has them. */
export function builtInTools(body: Fields): string[] {
  const names = listOf(body.tools).flatMap((tool) => Object.keys(camel(tool)))
  return [...new Set(names)].filter((name) => name !== 'functionDeclarations')
}

/** The parts of a content, which may be a string, one part, or a list. */
function partsOf(content: Json | undefined): Fields[] {
  if (typeof content === 'string') return [{ text: content }]
  if (Array.isArray(content)) return content.flatMap((part: Json) => (Array.isArray(part) ? [] : partsOf(part)))
  const whole = camel(content)
  if (whole.parts === undefined) return whole.role === undefined && Object.keys(whole).length > 0 ? [whole] : []
  const parts = Array.isArray(whole.parts) ? listOf(whole.parts) : [whole.parts]
  return parts.map((part) => (typeof part === 'string' ? { text: part } : camel(part)))
}

function messagesOf(contents: Json | undefined): Fields[] {
  const pendingCalls = new Map<string, { ids: string[]; next: number }>()
  const answeredIds = new Set<string>()
  let calls = 0

  function queueOf(name: string) {
    const queue = pendingCalls.get(name) ?? { ids: [], next: 0 }
    pendingCalls.set(name, queue)
    return queue
  }

  /** The oldest unanswered call of that name. */
  function oldestCall(name: string): string | undefined {
    const queue = queueOf(name)
    for (let id = queue.ids[queue.next++]; id !== undefined; id = queue.ids[queue.next++])
      if (!answeredIds.has(id)) return id
    return undefined
  }

  function model(parts: readonly Fields[]): Fields {
    const toolCalls = parts
      .filter(({ functionCall }) => isFields(functionCall))
      .map((part) => toolCall(part, `call_${calls++}`))
    for (const call of toolCalls) queueOf(textOf(fieldsOf(call.function).name)).ids.push(textOf(call.id))
    const visible = parts.filter(({ thought }) => thought !== true)
    const thoughts = parts
      .filter(({ thought }) => thought === true)
      .map(({ text: response }) => textOf(response))
      .join('')
    const signature = visible.findLast(
      (part) => part.functionCall === undefined && textOf(part.thoughtSignature) !== '',
    )
    const message = { role: 'assistant', content: visible.map((part) => visibleText(part) ?? '').join('') }
    const more = given({
      reasoning_content: thoughts || undefined,
      tool_calls: toolCalls.length > 0 ? toolCalls : undefined,
    })
    return withSignature({ ...message, ...more }, textOf(signature?.thoughtSignature))
  }

  /** A response without an id answers the oldest unanswered call of its name. */
  function answer(response: Fields): Fields {
    const { id, name, response: text } = camel(response)
    const call = textOf(id) || oldestCall(textOf(name)) || `call_${calls++}`
    answeredIds.add(call)
    return { role: 'tool', tool_call_id: call, name: textOf(name), content: responseText(text) }
  }

  function user(parts: readonly Fields[]): Fields[] {
    const answers = parts.flatMap(({ functionResponse }) =>
      isFields(functionResponse) ? [answer(functionResponse)] : [],
    )
    // An answer of a function may hold media beside its JSON; chat has them in the next message of the user.
    const media = parts.flatMap(({ functionResponse }) => listOf(camel(functionResponse).parts).map(camel))
    const text = [...media, ...parts].flatMap(chatPart)
    if (text.length === 0) return answers
    const isText = text.every(({ type }) => type === 'text')
    return [...answers, { role: 'user', content: isText && text.length === 1 ? textOf(text[0]?.text) : text }]
  }

  const contentList: readonly Json[] = Array.isArray(contents) ? contents : [contents ?? null]
  return contentList.flatMap((content) => {
    const parts = partsOf(content)
    if (parts.length === 0) return []
    return fieldsOf(content).role === 'model' ? [model(parts)] : user(parts)
  })
}

function responseText(text: Json | undefined): string {
  if (typeof text === 'string') return text
  const whole = fieldsOf(text)
  const [only, ...others] = Object.keys(whole)
  return only === 'result' && others.length === 0 && typeof whole.result === 'string' ? whole.result : jsonText(whole)
}

function chatPart(part: Fields): Fields[] {
  const text = visibleText(part)
  if (text !== undefined) return [{ type: 'text', text: text }]
  const { data, fileUri, mimeType } = camel(part.inlineData ?? part.fileData)
  const type = textOf(mimeType) || 'image/jpeg'
  const url = textOf(fileUri) || (textOf(data) === '' ? '' : `data:${type};base64,${textOf(data)}`)
  if (url === '') return []
  if (type.startsWith('image/')) return [{ type: 'image_url', image_url: { url } }]
  if (type.startsWith('audio/') && textOf(data) !== '')
    return [{ type: 'input_audio', input_audio: { data: textOf(data), format: type.slice('audio/'.length) } }]
  if (type.startsWith('video/')) return [{ type: 'video_url', video_url: { url } }]
  return [{ type: 'file', file: { file_data: url } }]
}

function toolOf(declared: Json): Fields {
  const { name, description, parameters, parametersJsonSchema } = camel(declared)
  const schema =
    parametersJsonSchema ?? (isFields(parameters) ? jsonSchema(parameters) : { type: 'object', properties: {} })
  return {
    type: 'function',
    function: given({ name: textOf(name), description: textOf(description) || undefined, parameters: schema }),
  }
}

function choiceOf({ mode, allowedFunctionNames }: Fields): Json | undefined {
  const names = texts(allowedFunctionNames)
  const [only, ...others] = names
  const modeName = textOf(mode).toUpperCase()
  if (modeName === 'NONE') return 'none'
  if (modeName === 'ANY' && only !== undefined && others.length === 0)
    return { type: 'function', function: { name: only } }
  if (only !== undefined && (modeName === 'ANY' || modeName === 'VALIDATED')) {
    const tools = names.map((name) => ({ type: 'function', function: { name } }))
    return { type: 'allowed_tools', allowed_tools: { mode: modeName === 'ANY' ? 'required' : 'auto', tools } }
  }
  if (modeName === 'ANY') return 'required'
  return modeName === 'AUTO' || modeName === 'VALIDATED' ? 'auto' : undefined
}

function settingsOf(settings: Fields): Fields {
  const stops = texts(settings.stopSequences)
  const top = numberOf(settings.logprobs)
  const format = formatOf(settings)
  return given({
    max_tokens: numberOf(settings.maxOutputTokens),
    temperature: numberOf(settings.temperature),
    top_p: numberOf(settings.topP),
    top_k: numberOf(settings.topK),
    stop: stops.length > 0 ? stops : undefined,
    seed: numberOf(settings.seed),
    n: numberOf(settings.candidateCount),
    presence_penalty: numberOf(settings.presencePenalty),
    frequency_penalty: numberOf(settings.frequencyPenalty),
    logprobs: settings.responseLogprobs === true ? true : undefined,
    top_logprobs: settings.responseLogprobs === true ? top : undefined,
    reasoning_effort: effortOf(camel(settings.thinkingConfig)),
    response_format: format,
  })
}

/**
 * Maps thinking budgets as Google's table does: up to 1,024 tokens low, up to 8,192 medium. -1 leaves it to the model.
 */
function effortOf({ thinkingLevel, thinkingBudget }: Fields): string | undefined {
  const level = THINKING_LEVELS.get(textOf(thinkingLevel).toLowerCase())
  const budget = numberOf(thinkingBudget)
  if (level !== undefined || budget === undefined || budget < 0) return level
  if (budget === 0) return 'none'
  if (budget <= 1024) return 'low'
  return budget <= 8192 ? 'medium' : 'high'
}

function formatOf({ responseMimeType, responseSchema, responseJsonSchema }: Fields): Fields | undefined {
  const lowered = isFields(responseSchema) ? jsonSchema(responseSchema) : undefined
  const schema = isFields(responseJsonSchema) ? responseJsonSchema : lowered
  if (schema !== undefined) return { type: 'json_schema', json_schema: { name: 'response', schema } }
  return responseMimeType === 'application/json' ? { type: 'json_object' } : undefined
}
