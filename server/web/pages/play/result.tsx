import { explorerOf } from '../lib/networks.ts'
import { usdc } from '../lib/x402.ts'
import type { Bought, Result } from './purchase.ts'

/** Shows a result by its type: text, pictures, clips, sounds, a table, or JSON. */
export function ResultView({ result }: { result: Result }) {
  if (result.kind === 'text') return <p class="answer">{result.text || '…'}</p>
  if (result.kind === 'file') return <Media file={{ url: result.url, type: result.type }} />
  const files = filesIn(result.value)
  if (files.length > 0)
    return (
      <div class="media">
        {files.map((file) => (
          <Media file={file} />
        ))}
      </div>
    )
  const rows = rowsIn(result.value)
  return (
    <>
      {rows && <Table rows={rows} />}
      <details open={!rows}>
        <summary>JSON</summary>
        <pre tabIndex={0} aria-label="The answer as JSON">
          {JSON.stringify(result.value, null, 2)}
        </pre>
      </details>
    </>
  )
}

type File = { readonly url: string; readonly type: string }

function Media({ file: { url, type } }: { file: File }) {
  const source = isOurs(url) ? url : undefined
  if (!source) return <a href={url}>Open the result</a>
  if (type.startsWith('video')) return <video src={source} controls />
  if (type.startsWith('audio')) return <audio src={source} controls />
  return <img src={source} alt="The picture that was bought" />
}

/** Only what this gateway hosts is shown in the page. */
const isOurs = (url: string): boolean =>
  /^(data|blob):/.test(url) || URL.parse(url, location.href)?.host === location.host

const TYPES: Readonly<Record<string, string>> = {
  mp4: 'video',
  webm: 'video',
  mp3: 'audio',
  wav: 'audio',
  opus: 'audio',
  pcm: 'audio',
}

function filesIn(value: unknown): readonly File[] {
  const { data } = (value ?? {}) as { data?: unknown }
  if (!Array.isArray(data)) return []
  return data.flatMap((item: unknown) => {
    const { url, b64_json: encoded } = (item ?? {}) as { url?: unknown; b64_json?: unknown }
    if (typeof encoded === 'string') return [{ url: `data:image/png;base64,${encoded}`, type: 'image' }]
    if (typeof url !== 'string' || !/^(https?|data):/.test(url)) return []
    const ending = /\.(\w+)(?:\?|$)/.exec(url)?.[1] ?? ''
    return [
      {
        url: url.startsWith('data:') ? url : here(url),
        type: /^data:(\w+)/.exec(url)?.[1] ?? TYPES[ending] ?? 'image',
      },
    ]
  })
}

/** A hosted file under the host of the page, where that is the same machine by another name. */
function here(url: string): string {
  const { pathname, search, host } = new URL(url)
  return host === location.host ? pathname + search : url
}

type Row = Readonly<Record<string, unknown>>
const MOST_ROWS = 50
const MOST_COLUMNS = 6

/** A list of flat objects, at the top or one step below it. */
function rowsIn(value: unknown): readonly Row[] | undefined {
  const lists = [value, ...Object.values((value ?? {}) as object)]
  const list = lists.find(
    (each): each is readonly Row[] =>
      Array.isArray(each) && each.every((row) => typeof row === 'object' && row !== null),
  )
  return list && list.length > 0 ? list.slice(0, MOST_ROWS) : undefined
}

function Table({ rows }: { rows: readonly Row[] }) {
  const isPlain = (name: string) => rows.some((row) => ['string', 'number', 'boolean'].includes(typeof row[name]))
  const columns = Object.keys(rows[0] ?? {})
    .filter(isPlain)
    .slice(0, MOST_COLUMNS)
  return (
    <div class="table" role="region" aria-label="The result as a table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((name) => (
              <th scope="col">{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>
              {columns.map((name) => (
                <td>{String(row[name] ?? '')}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** Shows the amount paid, with a link to the transaction. */
export function ReceiptView({ bought: { receipt, problem, isCut, result } }: { bought: Bought }) {
  const tokens = result.kind === 'text' ? result.tokens : undefined
  const explorer = receipt && explorerOf(receipt.network, receipt.transaction)
  return (
    <>
      {problem && (
        <p role="alert">
          The answer is not whole: {problem}.{isCut && ' Continue under "Your calls": it is not paid twice.'}
        </p>
      )}
      <dl class="receipt">
        {receipt?.amount && (
          <div>
            <dt>Paid</dt>
            <dd>{usdc(receipt.amount)} USDC</dd>
          </div>
        )}
        {tokens && (
          <div>
            <dt>Tokens</dt>
            <dd>
              {tokens.prompt_tokens} in, {tokens.completion_tokens} out
            </dd>
          </div>
        )}
        {receipt?.transaction && (
          <div>
            <dt>Transaction</dt>
            <dd class="mono">
              {explorer === undefined ? receipt.transaction : <a href={explorer}>{receipt.transaction}</a>}
            </dd>
          </div>
        )}
        {!receipt && (
          <div>
            <dt>Paid</dt>
            <dd>nothing{problem ? ' that is known yet' : ''}</dd>
          </div>
        )}
      </dl>
    </>
  )
}
