/** API keys by address: what each has and was charged, when it was used last, and a button that blocks it. */
import { useState } from 'preact/hooks'
import { networkName } from '../lib/networks.ts'
import { type KeyPage, type KeyRow, readApi } from './api.ts'
import { type Change, Confirmation } from './controls.tsx'
import { short, time } from './format.ts'
import { Problem, useRead } from './use_read.tsx'

export function KeyList() {
  const [after, setAfter] = useState('')
  const [change, setChange] = useState<Change>()
  const path = after === '' ? 'keys' : `keys?after=${encodeURIComponent(after)}`
  const read = useRead(path, 10_000, () => readApi<KeyPage>(path))
  const { keys = [], next = null } = read.value ?? {}
  const block = (key: KeyRow) => setChange(blockChange(key))
  return (
    <>
      <h1>Keys</h1>
      <p class="soft">
        A blocked key buys nothing. It still polls what it has ordered, shows its balance and can be closed.
      </p>
      <Problem read={read} />
      {read.value && keys.length === 0 && <p>Nobody has made an API key here.</p>}
      {keys.length > 0 && <Table keys={keys} onBlock={block} />}
      <p class="row">
        {after !== '' && (
          <button type="button" onClick={() => setAfter('')}>
            First page
          </button>
        )}
        {next !== null && (
          <button type="button" onClick={() => setAfter(next)}>
            Next page
          </button>
        )}
      </p>
      {change && (
        <Confirmation
          change={change}
          onEnd={(isDone) => {
            setChange(undefined)
            if (isDone) read.again()
          }}
        />
      )}
    </>
  )
}

/** A block of the payer blocks all its keys, and goes with it. */
function blockChange({ address, payer, blocked_address: blocked }: KeyRow): Change {
  if (blocked === null)
    return { text: `Block the key ${address}: it buys nothing more.`, path: `blocked/${address}`, body: {} }
  const text =
    blocked === payer ? `Unblock the wallet ${payer}, which pays for this key.` : `Unblock the key ${address}.`
  return { text, path: `blocked/${blocked}` }
}

const HEADS = ['Key', 'Balance', 'Left', 'Charged', 'Unclaimed', 'Gas', 'Last use', 'Blocked'] as const

function Table({ keys, onBlock }: { keys: readonly KeyRow[]; onBlock: (key: KeyRow) => void }) {
  return (
    <div class="table">
      <table class="stacked">
        <thead>
          <tr>
            {HEADS.map((head) => (
              <th scope="col" key={head}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {keys.map((key) => (
            <tr key={`${key.network}/${key.channel_id}`}>
              <th scope="row">
                <span class="mono" title={key.address}>
                  {short(key.address)}
                </span>
                <span class="soft small block">
                  {networkName(key.network)}, paid by{' '}
                  <span class="mono" title={key.payer}>
                    {short(key.payer)}
                  </span>
                </span>
              </th>
              <td data-label="Balance">{key.balance}</td>
              <td data-label="Left">{key.available}</td>
              <td data-label="Charged">{key.charged}</td>
              <td data-label="Unclaimed">{key.unclaimed}</td>
              <td data-label="Gas">{key.gas_paid}</td>
              <td class="nowrap" data-label="Last use">
                {key.last_used_at === null ? 'never' : time(key.last_used_at)}
              </td>
              <td data-label="Blocked">
                <button type="button" class="chip" onClick={() => onBlock(key)}>
                  {key.is_blocked ? 'Unblock' : 'Block'}
                  <span class="visually-hidden"> {key.address}</span>
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
