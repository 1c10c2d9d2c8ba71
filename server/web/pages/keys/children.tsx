import { useState } from 'preact/hooks'
import { CodeBlock } from '../lib/code_block.tsx'
import { usdc } from '../lib/x402.ts'
import { type Child, listChildren, makeChild, revokeChild } from './requests.ts'

type Props = {
  readonly keyText: string
  readonly isBusy: boolean
  readonly onRun: (doing: string, working: () => Promise<void>) => Promise<void>
  /** Reads the balance again, which caps reduce. */
  readonly onChanged: () => Promise<void>
}

/** Keys for others that spend a part of this deposit. */
export function Children({ keyText, isBusy, onRun, onChanged }: Props) {
  const [children, setChildren] = useState<readonly Child[]>()
  const [made, setMade] = useState<{ readonly name: string; readonly key: string }>()
  const [name, setName] = useState('')
  const [cap, setCap] = useState('1')
  const [limits, setLimits] = useState<Limits>({ days: '30', models: '', perMinute: '' })
  const read = async () => setChildren(await listChildren(keyText))
  const make = () =>
    onRun('Making the child key', async () => {
      const { key } = await makeChild(keyText, { name: name.trim(), cap: cap.trim(), ...limitsOf(limits) })
      setMade({ name: name.trim(), key })
      setName('')
      await Promise.all([read(), onChanged()])
    })
  const revoke = (address: string) =>
    onRun('Ending the child key', async () => {
      await revokeChild(keyText, address)
      await Promise.all([read(), onChanged()])
    })
  return (
    <details
      class="card children"
      onToggle={(event) => event.currentTarget.open && !children && void onRun('Reading the child keys', read)}
    >
      <summary>Child keys, for people and programs that share this deposit</summary>
      <p>
        A child spends up to its cap, and can be ended at any time. This key signs for the whole cap at once, so the
        gateway could claim that much: lend what you would prepay.
      </p>
      <form
        class="row lend"
        onSubmit={(event) => {
          event.preventDefault()
          void make()
        }}
      >
        <label class="field">
          <span>Whose, or what for</span>
          <input value={name} maxLength={80} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <label class="field">
          <span>Cap (USDC)</span>
          <input inputMode="decimal" value={cap} onInput={(event) => setCap(event.currentTarget.value)} />
        </label>
        <LimitFields limits={limits} onChange={setLimits} />
        <button type="submit" disabled={isBusy || name.trim() === '' || cap.trim() === ''}>
          Make a child key
        </button>
      </form>
      {made && (
        <>
          <p class="key-note">The key for {made.name}, shown once:</p>
          <CodeBlock code={made.key} label={`The key for ${made.name}`} />
        </>
      )}
      {children && children.length > 0 && <ChildTable rows={children} isBusy={isBusy} onRevoke={revoke} />}
    </details>
  )
}

/** As they were typed; empty for no limit. */
type Limits = { readonly days: string; readonly models: string; readonly perMinute: string }

/** Throws Error for a number that is none; the gateway says which values it takes. */
function limitsOf({ days, models, perMinute }: Limits) {
  const wholeNumber = (text: string, name: string): number => {
    if (/^\d{1,6}$/.test(text.trim())) return Number(text)
    throw new Error(`${name} takes a whole number.`)
  }
  const ids = models.split(/[\s,]+/).filter(Boolean)
  return {
    expires_at: Math.floor(Date.now() / 1000) + wholeNumber(days, 'Days') * 86_400,
    ...(ids.length > 0 && { models: ids }),
    ...(perMinute.trim() !== '' && { per_minute: wholeNumber(perMinute, 'Calls a minute') }),
  }
}

function LimitFields({ limits, onChange }: { limits: Limits; onChange: (limits: Limits) => void }) {
  const fields = [
    ['days', 'Days', '30'],
    ['perMinute', 'Calls a minute', 'any'],
    ['models', 'Models', 'all'],
  ] as const
  return (
    <>
      {fields.map(([name, label, placeholder]) => (
        <label class="field" key={name}>
          <span>{label}</span>
          <input
            value={limits[name]}
            placeholder={placeholder}
            onInput={(event) => onChange({ ...limits, [name]: event.currentTarget.value })}
          />
        </label>
      ))}
    </>
  )
}

type Table = { readonly rows: readonly Child[]; readonly isBusy: boolean; readonly onRevoke: (address: string) => void }

function ChildTable({ rows, isBusy, onRevoke }: Table) {
  return (
    <div class="table key-note">
      <table class="stacked">
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">State</th>
            <th scope="col">Charged</th>
            <th scope="col">Until</th>
            <th scope="col">
              <span class="visually-hidden">End</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ address, name, status, cap, charged, expires_at: until, models, per_minute: perMinute }) => (
            <tr key={address}>
              <th scope="row">
                {name}
                {(models.length > 0 || perMinute !== null) && (
                  <>
                    <br />
                    <span class="soft small">
                      {[...models, ...(perMinute === null ? [] : [`${perMinute} calls a minute`])].join(', ')}
                    </span>
                  </>
                )}
              </th>
              <td>{status}</td>
              <td>
                {charged === null ? '' : `${usdc(charged.replace('.', ''))} of ${usdc(cap.replace('.', ''))} USDC`}
              </td>
              <td class="soft">{new Date(until * 1000).toLocaleDateString()}</td>
              <td class="actions">
                {status === 'active' && (
                  <button
                    type="button"
                    class="chip"
                    disabled={isBusy}
                    aria-label={`End the key of ${name}`}
                    onClick={() => onRevoke(address)}
                  >
                    End
                  </button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
