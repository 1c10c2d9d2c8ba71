/** The operator's console: a session for the token, and the pages behind it. The address after # names the page. */
import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { isSignedIn, signIn, signOut } from './api.ts'
import { Calls } from './calls.tsx'
import { Configuration } from './configuration.tsx'
import { ControlsPage } from './controls.tsx'
import { Health } from './health.tsx'
import { KeyList } from './key_list.tsx'
import { OpenCalls } from './open_calls.tsx'
import { Overview } from './overview.tsx'
import { PaymentPage } from './payment.tsx'
import { OnSignedOut } from './use_read.tsx'

const PAGES = [
  ['overview', 'Overview'],
  ['calls', 'Calls'],
  ['open', 'Open work'],
  ['keys', 'Keys'],
  ['health', 'Health'],
  ['controls', 'Controls'],
  ['configuration', 'Configuration'],
] as const

function Console() {
  const [isIn, setIn] = useState<boolean>()
  const [problem, setProblem] = useState('')
  const [page, name] = useHash()
  useEffect(() => {
    isSignedIn().then(setIn, (error: Error) => setProblem(error.message))
  }, [])
  const endSession = () =>
    void signOut().then(
      () => {
        setProblem('')
        setIn(false)
      },
      () => setProblem('You are still signed in: the gateway did not answer. Try again.'),
    )
  return (
    <>
      <a class="skip" href="#main" onClick={toMain}>
        To the content
      </a>
      <header class="bar">
        <nav class="wrap" aria-label="Console">
          <a class="name" href="#/overview">
            Farebox console
          </a>
          {isIn &&
            PAGES.map(([path, text]) => (
              <a href={`#/${path}`} aria-current={isCurrent(path, page) ? 'page' : undefined}>
                {text}
              </a>
            ))}
          {isIn && (
            <button type="button" class="chip" onClick={endSession}>
              Sign out
            </button>
          )}
        </nav>
      </header>
      <main id="main" class="wrap console" tabIndex={-1}>
        {problem && <p role="alert">{problem}</p>}
        {isIn === false && <SignIn onDone={() => setIn(true)} />}
        {isIn && (
          <OnSignedOut.Provider value={() => setIn(false)}>
            <Chosen page={page} name={name} />
          </OnSignedOut.Provider>
        )}
      </main>
    </>
  )
}

const isCurrent = (path: string, page: string): boolean => path === page || (path === 'calls' && page === 'payment')

/** The address after # is the page's, so the link to the content does not change it. */
function toMain(event: Event): void {
  event.preventDefault()
  document.getElementById('main')?.focus()
}

function Chosen({ page, name }: { page: string; name: string }) {
  useEffect(() => {
    const title = PAGES.find(([path]) => path === page)?.[1] ?? (page === 'payment' ? 'Payment' : 'Overview')
    document.title = `${title} · Farebox console`
    scrollTo(0, 0)
  }, [page, name])
  if (page === 'calls') return <Calls />
  if (page === 'payment' && name !== '') return <PaymentPage key={name} name={name} />
  if (page === 'payment') return <Calls />
  if (page === 'open') return <OpenCalls />
  if (page === 'keys') return <KeyList />
  if (page === 'health') return <Health />
  if (page === 'controls') return <ControlsPage />
  return page === 'configuration' ? <Configuration /> : <Overview />
}

/** The page and the name in `#/page/name`. */
function useHash(): readonly [page: string, name: string] {
  const [hash, setHash] = useState(location.hash)
  useEffect(() => {
    const update = () => setHash(location.hash)
    addEventListener('hashchange', update)
    return () => removeEventListener('hashchange', update)
  }, [])
  const [, page = 'overview', name = ''] = hash.split('/')
  return [page, decoded(name)]
}

/** Returned unchanged if it is not percent-encoded. */
function decoded(name: string): string {
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}

function SignIn({ onDone }: { onDone: () => void }) {
  const [token, setToken] = useState('')
  const [problem, setProblem] = useState('')
  const [isBusy, setBusy] = useState(false)
  const submit = async () => {
    setBusy(true)
    try {
      await signIn(token)
      onDone()
    } catch (error) {
      setProblem((error as Error).message)
    } finally {
      setBusy(false)
    }
  }
  return (
    <form
      class="card sign-in"
      onSubmit={(event) => {
        event.preventDefault()
        void submit()
      }}
    >
      <h1>Console</h1>
      <p class="soft">For the operator of this gateway. A session lasts twelve hours.</p>
      <label class="field">
        <span>Operator token</span>
        <input
          type="password"
          autocomplete="current-password"
          required
          aria-describedby={problem ? 'sign-in-problem' : undefined}
          aria-invalid={problem !== ''}
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
      </label>
      {problem && (
        <p role="alert" id="sign-in-problem">
          {problem}
        </p>
      )}
      <button class="main-action" disabled={isBusy}>
        Sign in
      </button>
    </form>
  )
}

render(<Console />, document.body)
