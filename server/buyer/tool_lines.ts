/** The lines that make a program use a base URL and a key: those of farebox proxy, and of an API key. */

/**
 * `base`: URL below which /v1 is. `variable`: where the key stands in the environment; the lines set it if `token` is
 * given, and read it otherwise, so that the key is shown once.
 */
type ToolOptions = {
  readonly base: string
  readonly variable: string
  readonly token?: string | undefined
  readonly model: string | undefined
}

/** Text that a shell must not expand, or the value of a variable. */
type Value = string | { readonly variable: string } | undefined

const exported = (variables: Readonly<Record<string, Value>>): string =>
  Object.entries(variables)
    .flatMap(([name, value]) => (value === undefined ? [] : [`export ${name}=${quoted(value)}`]))
    .join('\n')

const quoted = (value: string | { readonly variable: string }): string =>
  typeof value === 'string' ? `'${value}'` : `"$${value.variable}"`

const keyOf = ({ token, variable }: ToolOptions): Value => token ?? { variable }

/** The line that sets the variable, for tools that read the key from it. */
const set = ({ token, variable }: ToolOptions): string =>
  token === undefined ? '' : `${exported({ [variable]: token })}\n`

/** Titles of the programs. */
export const TOOL_TITLES: Readonly<Record<string, string>> = {
  claude: 'Claude Code',
  codex: 'Codex',
  opencode: 'opencode',
  gemini: 'Gemini CLI',
  openai: 'OpenAI SDKs',
  anthropic: 'Anthropic SDKs',
}

/** Asks for one answer by curl. */
export function curlLine(options: ToolOptions): string {
  const { base, variable, model } = options
  const body = JSON.stringify({ model: model ?? 'MODEL', messages: [{ role: 'user', content: 'Hello' }] })
  return `${set(options)}curl ${base}/v1/chat/completions -H "Authorization: Bearer $${variable}" \\
  -H 'content-type: application/json' -d '${body}'`
}

/** By the name of the program. */
export const TOOL_LINES: Readonly<Record<string, (options: ToolOptions) => string>> = {
  claude: (options) =>
    exported({
      ANTHROPIC_BASE_URL: options.base,
      ANTHROPIC_AUTH_TOKEN: keyOf(options),
      ANTHROPIC_MODEL: options.model,
      ANTHROPIC_SMALL_FAST_MODEL: options.model,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    }),
  codex: (options) => `${set(options)}# at the top of ~/.codex/config.toml, above its tables:
model = ${JSON.stringify(options.model ?? 'MODEL')}
model_provider = "farebox"
[model_providers.farebox]
name = "farebox"
base_url = "${options.base}/v1"
env_key = "${options.variable}"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0`,
  opencode: (options) => `${set(options)}# in opencode.json:
${opencode(options)}`,
  gemini: (options) =>
    `${exported({ GEMINI_API_KEY: keyOf(options), GOOGLE_GEMINI_BASE_URL: options.base })}
# in ~/.gemini/settings.json, without which it does not start by a script:
# { "security": { "auth": { "selectedType": "gemini-api-key" } } }
# then: gemini -m ${options.model ?? 'MODEL'}`,
  openai: (options) =>
    exported({ OPENAI_BASE_URL: `${options.base}/v1`, OPENAI_API_KEY: keyOf(options), OPENAI_MODEL: options.model }),
  anthropic: (options) => exported({ ANTHROPIC_BASE_URL: options.base, ANTHROPIC_API_KEY: keyOf(options) }),
}

const opencode = ({ base, variable, model = 'MODEL' }: ToolOptions): string =>
  JSON.stringify(
    {
      model: `farebox/${model}`,
      provider: {
        farebox: {
          npm: '@ai-sdk/openai-compatible',
          name: 'farebox',
          options: { baseURL: `${base}/v1`, apiKey: `{env:${variable}}` },
          models: { [model]: { name: model } },
        },
      },
    },
    null,
    2,
  )
