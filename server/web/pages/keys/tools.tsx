import { useEffect, useState } from 'preact/hooks'
import { curlLine, TOOL_LINES, TOOL_TITLES } from '../../../buyer/tool_lines.ts'
import { getJson, type Model } from '../lib/api.ts'
import { CodeTabs } from '../lib/code_block.tsx'
import { cheapest, kindOf } from '../lib/prices.ts'

const VARIABLE = 'FAREBOX_KEY'

/** The lines that make tools use a key. Without `token` they read it from the environment. */
export function ToolLines({ token }: { token: string | undefined }) {
  const [models, setModels] = useState<readonly Model[]>([])
  const [model, setModel] = useState<string>()
  useEffect(() => {
    getJson<{ data: readonly Model[] }>('/api/v1/models').then(
      ({ data }) => {
        const chats = data.filter((each) => kindOf(each) === 'chat')
        setModels(chats)
        setModel((chats.find(({ id }) => id === 'farebox/echo') ?? cheapest(chats))?.id)
      },
      () => {},
    )
  }, [])
  const base = `${location.origin}/api`
  const options = { base, variable: VARIABLE, token, model }
  const tabs = [
    ...Object.entries(TOOL_LINES).map(([name, lines]) => [TOOL_TITLES[name] ?? name, lines(options)] as const),
    ['Cursor', cursorLines({ base, token, model })] as const,
    ['curl', curlLine(options)] as const,
  ]
  return (
    <section aria-labelledby="tools">
      <h2 id="tools">Use it</h2>
      {models.length > 1 && (
        <label class="field choice">
          <span>Model</span>
          <select value={model} onChange={(event) => setModel(event.currentTarget.value)}>
            {models.map(({ id }) => (
              <option value={id} key={id}>
                {id}
              </option>
            ))}
          </select>
        </label>
      )}
      <CodeTabs tabs={tabs} label="Tool" />
      <p class="soft small key-note">
        {token === undefined ? (
          <>
            <code>{VARIABLE}</code> is the key; set it first.
          </>
        ) : (
          'These lines have the key in them: paste them into a terminal, not into a chat or a repository.'
        )}
      </p>
    </section>
  )
}

const cursorLines = ({ base, token, model }: { base: string; token: string | undefined; model: string | undefined }) =>
  `Settings > Models > API Keys
  OpenAI API Key            ${token ?? 'the key'}
  Override OpenAI Base URL  ${base}/v1
  Add model                 ${model ?? 'MODEL'}
Cursor calls from its own servers: they see the key, and reach public gateways only.`
