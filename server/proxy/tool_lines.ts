/** The lines that make a program use the proxy. */

type Options = { readonly port: number; readonly token: string; readonly model: string | undefined }

const exported = (variables: Readonly<Record<string, string | undefined>>): string =>
  Object.entries(variables)
    .flatMap(([name, value]) => (value === undefined ? [] : [`export ${name}='${value}'`]))
    .join('\n')

const origin = (port: number): string => `http://127.0.0.1:${port}`

/** By the name of the program. */
export const TOOL_LINES: Readonly<Record<string, (options: Options) => string>> = {
  claude: ({ port, token, model }) =>
    exported({
      ANTHROPIC_BASE_URL: origin(port),
      ANTHROPIC_AUTH_TOKEN: token,
      ANTHROPIC_MODEL: model,
      ANTHROPIC_SMALL_FAST_MODEL: model,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    }),
  codex: ({ port, token, model = 'MODEL' }) => `${exported({ FAREBOX_PROXY_TOKEN: token })}
# in ~/.codex/config.toml:
model = ${JSON.stringify(model)}
model_provider = "farebox"
web_search = "disabled"
[features]
multi_agent = false
[model_providers.farebox]
name = "farebox"
base_url = "${origin(port)}/v1"
env_key = "FAREBOX_PROXY_TOKEN"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0`,
  opencode: ({ port, token, model = 'MODEL' }) => `${exported({ FAREBOX_PROXY_TOKEN: token })}
# in opencode.json:
${JSON.stringify(
  {
    model: `farebox/${model}`,
    provider: {
      farebox: {
        npm: '@ai-sdk/openai-compatible',
        name: 'farebox',
        options: { baseURL: `${origin(port)}/v1`, apiKey: '{env:FAREBOX_PROXY_TOKEN}' },
        models: { [model]: { name: model } },
      },
    },
  },
  null,
  2,
)}`,
  gemini: ({ port, token, model }) =>
    `${exported({ GEMINI_API_KEY: token, GOOGLE_GEMINI_BASE_URL: origin(port) })}
# then: gemini -m ${model ?? 'MODEL'}`,
  openai: ({ port, token, model }) =>
    exported({ OPENAI_BASE_URL: `${origin(port)}/v1`, OPENAI_API_KEY: token, OPENAI_MODEL: model }),
  anthropic: ({ port, token }) => exported({ ANTHROPIC_BASE_URL: origin(port), ANTHROPIC_API_KEY: token }),
}
