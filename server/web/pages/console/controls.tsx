/** Controls that the operator changes at run time, each after one confirmation. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { changeControl, type Controls, type Entries, readApi } from './api.ts'
import { Problem, useRead } from './use_read.tsx'

/** A change that waits for its confirmation. */
export type Change = { readonly text: string; readonly path: string; readonly body?: object }

type Field = { readonly name: string; readonly text: string; readonly isNumber?: true; readonly isNeeded?: true }
type Kind = {
  readonly name: keyof Omit<Controls, 'maintenance'>
  readonly title: string
  readonly about: string
  readonly subject: string
  readonly fields: readonly Field[]
}

const LIMITS: readonly Field[] = [
  { name: 'usdc_per_day', text: 'USDC per day' },
  { name: 'usdc_per_month', text: 'USDC per month' },
  { name: 'requests_per_minute', text: 'Requests per minute', isNumber: true },
  { name: 'requests_per_day', text: 'Requests per day', isNumber: true },
]
const REASON: readonly Field[] = [{ name: 'reason', text: 'Reason, which the wallet is told' }]

const KINDS: readonly Kind[] = [
  {
    name: 'gateway_limits',
    title: 'Budgets of gateways',
    about: 'What a gateway sells at most. * stands for each gateway without its own.',
    subject: 'Gateway',
    fields: LIMITS,
  },
  {
    name: 'wallet_limits',
    title: 'Budgets of wallets',
    about: 'What a wallet buys at most, over all gateways. * stands for every wallet without its own.',
    subject: 'Wallet',
    fields: LIMITS,
  },
  {
    name: 'margins',
    title: 'Margins',
    about:
      'Added to the price of a product, named by its tag (images) or endpoint (chat.completions). In force after ten seconds.',
    subject: 'Product',
    fields: [{ name: 'percent', text: 'Percent', isNeeded: true }],
  },
  {
    name: 'blocked',
    title: 'Blocked wallets',
    about: 'They are refused before anything is charged.',
    subject: 'Wallet',
    fields: REASON,
  },
  {
    name: 'allowed',
    title: 'Allowed wallets',
    about: 'While there are any, only these buy.',
    subject: 'Wallet',
    fields: REASON,
  },
]

export function ControlsPage() {
  const read = useRead('controls', 10_000, () => readApi<Controls>('controls'))
  const [change, setChange] = useState<Change>()
  const [done, setDone] = useState('')
  return (
    <>
      <h1>Controls</h1>
      <p class="soft">
        Every replica has a change within a few seconds. What was ordered before is collected as usual.
      </p>
      <Problem read={read} />
      <p role="status">{done}</p>
      {read.value && (
        <>
          <Maintenance state={read.value.maintenance} onChange={setChange} />
          <div class="lists">
            {KINDS.map((kind) => (
              <List key={kind.name} kind={kind} entries={read.value?.[kind.name] ?? {}} onChange={setChange} />
            ))}
          </div>
        </>
      )}
      {change && (
        <Confirmation
          change={change}
          onEnd={(isDone) => {
            setChange(undefined)
            if (!isDone) return
            setDone(`Done: ${change.text}`)
            read.again()
          }}
        />
      )}
    </>
  )
}

type OnChange = (change: Change) => void

function Maintenance({ state, onChange }: { state: Controls['maintenance']; onChange: OnChange }) {
  const [message, setMessage] = useState('')
  return (
    <section class="card" aria-labelledby="maintenance">
      <h2 id="maintenance">Maintenance</h2>
      <p>
        {state.on ? (
          <>
            <strong class="status-bad">On:</strong> buyers get 503. {state.message}
          </>
        ) : (
          <>
            <strong class="status-good">Off:</strong> the gateways sell.
          </>
        )}
      </p>
      {state.on ? (
        <button
          type="button"
          onClick={() => onChange({ text: 'Turn maintenance off: the gateways sell again.', path: 'maintenance' })}
        >
          Turn off
        </button>
      ) : (
        <form
          class="entry"
          onSubmit={(event) => {
            event.preventDefault()
            const body = message ? { message } : {}
            onChange({ text: 'Turn maintenance on: every gateway stops selling.', path: 'maintenance', body })
          }}
        >
          <label class="field">
            <span>Message for buyers</span>
            <input maxLength={300} value={message} onInput={(event) => setMessage(event.currentTarget.value)} />
          </label>
          <button>Turn on</button>
        </form>
      )}
    </section>
  )
}

function List({ kind, entries, onChange }: { kind: Kind; entries: Entries; onChange: OnChange }) {
  const names = Object.keys(entries).toSorted()
  return (
    <section class="card" aria-labelledby={kind.name}>
      <h2 id={kind.name}>{kind.title}</h2>
      <p class="soft">{kind.about}</p>
      {names.length > 0 && (
        <ul class="entries">
          {names.map((name) => (
            <li key={name}>
              <span>
                <strong class="mono">{name}</strong> {wordsOf(kind, entries[name] ?? {})}
              </span>
              <button
                type="button"
                class="chip"
                onClick={() =>
                  onChange({
                    text: `${kind.title}: remove ${name}.`,
                    path: `${kind.name}/${encodeURIComponent(name)}`,
                  })
                }
              >
                Remove<span class="visually-hidden"> {name}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
      <details>
        <summary>Add or change</summary>
        <EntryForm kind={kind} onChange={onChange} />
      </details>
    </section>
  )
}

function wordsOf({ fields }: Pick<Kind, 'fields'>, entry: Readonly<Record<string, unknown>>): string {
  return fields
    .filter(({ name }) => entry[name] !== undefined)
    .map(({ name, text }) => (name === 'reason' ? String(entry[name]) : `${text}: ${String(entry[name])}`))
    .join('; ')
}

function EntryForm({ kind, onChange }: { kind: Kind; onChange: OnChange }) {
  const [subject, setSubject] = useState('')
  const [values, setValues] = useState<Readonly<Record<string, string>>>({})
  const submit = () => {
    const given = kind.fields.filter(({ name }) => values[name]?.trim())
    const body = Object.fromEntries(
      given.map(({ name, isNumber }) => [name, isNumber ? Number(values[name]) : values[name]?.trim()]),
    )
    const text = `${kind.title}: ${subject}, ${wordsOf(kind, body) || 'without a reason'}.`
    onChange({ text, path: `${kind.name}/${encodeURIComponent(subject.trim())}`, body })
  }
  return (
    <form
      class="entry"
      onSubmit={(event) => {
        event.preventDefault()
        submit()
      }}
    >
      <label class="field">
        <span>{kind.subject}</span>
        <input required value={subject} onInput={(event) => setSubject(event.currentTarget.value)} />
      </label>
      {kind.fields.map(({ name, text, isNumber, isNeeded }) => (
        <label class="field" key={name}>
          <span>{text}</span>
          <input
            required={isNeeded}
            inputMode={isNumber ? 'numeric' : 'text'}
            value={values[name] ?? ''}
            onInput={(event) => setValues({ ...values, [name]: event.currentTarget.value })}
          />
        </label>
      ))}
      <button>Set</button>
    </form>
  )
}

/** The one confirmation. Escape and Cancel change nothing. */
export function Confirmation({ change, onEnd }: { change: Change; onEnd: (isDone: boolean) => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [problem, setProblem] = useState('')
  const [isBusy, setBusy] = useState(false)
  useEffect(() => dialog.current?.showModal(), [])
  const confirm = async () => {
    setBusy(true)
    try {
      await changeControl(change.path, change.body)
      onEnd(true)
    } catch (error) {
      setProblem((error as Error).message)
      setBusy(false)
    }
  }
  return (
    <dialog ref={dialog} aria-labelledby="confirm" onClose={() => onEnd(false)}>
      <h2 id="confirm">Change this?</h2>
      <p>{change.text}</p>
      {problem && <p role="alert">{problem}</p>}
      <p class="row">
        <button type="button" class="main-action" disabled={isBusy} onClick={confirm}>
          Confirm
        </button>
        <button type="button" onClick={() => onEnd(false)}>
          Cancel
        </button>
      </p>
    </dialog>
  )
}
